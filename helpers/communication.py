"""What saved exchanges buy on many GPUs: a simulation from a stated cost model.

Nothing here runs on several processes. Every constant is a field of `Setting`, with its
source, and `communication_sliders.explore` has a slider for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

PROCESSES = tuple(2**i for i in range(13))  # 1 to 4096


@dataclass(frozen=True)
class Setting:
    """A model and a cluster, one process a GPU.

    Attributes:
        weights: parameters of the model. 1.5e9 are those of GPT-2's largest
            (https://huggingface.co/openai-community/gpt2-xl).
        bytes_per_weight: of its gradient: 4 in float32, 2 in bfloat16.
        tokens: in a micro-batch, all its rows together. Yours to choose.
        accumulation_steps: micro-batches in a window. Yours to choose.
        peak_flops: operations a second of a GPU. 989e12 is an H100 SXM in bfloat16
            (https://www.nvidia.com/en-us/data-center/h100/, without sparsity).
        utilisation: share of the peak that training reaches. Around 0.4 is reported
            for large models, as 0.46 in PaLM (https://arxiv.org/abs/2204.02311,
            section 4.1).
        gpus_per_node: GPUs that NVLink joins; 8 in a DGX H100.
        node_bandwidth: bytes a second that a GPU sends inside a node. NVLink of an
            H100 has 900e9 in both directions together, so 450e9.
        network_bandwidth: bytes a second that a GPU sends to another node. 50e9 are
            the 400 Gb/s that a DGX H100 has for each GPU
            (https://www.nvidia.com/en-us/data-center/dgx-h100/).
        node_latency, network_latency: seconds of one step of the ring: 3.4e-6 and
            14e-6 in NCCL's own model, `hwLat` for a ring with the Simple protocol
            (https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc).
        buckets: all-reduces that the gradient is sent in. DDP cuts it every 25 MiB; a
            ring would pay its latency for each, where NCCL changes to other ways.
        overlap: share of a backward behind which an exchange can hide, 0 to 1.
    """

    weights: float = 1.5e9
    bytes_per_weight: int = 4
    tokens: float = 8192
    accumulation_steps: int = 8
    peak_flops: float = 989e12
    utilisation: float = 0.4
    gpus_per_node: int = 8
    node_bandwidth: float = 450e9
    network_bandwidth: float = 50e9
    node_latency: float = 3.4e-6
    network_latency: float = 14e-6
    buckets: int = 1
    overlap: float = 0.0

    def __post_init__(self) -> None:
        may_be_zero = ("node_latency", "network_latency", "overlap")
        for field in fields(self):
            value = getattr(self, field.name)
            if not (0 < value < math.inf or (value == 0 and field.name in may_be_zero)):
                raise ValueError(f"{field.name} is {value!r}; it must be above 0.")
        if self.overlap > 1 or self.utilisation > 1:
            raise ValueError("overlap and utilisation are shares, from 0 to 1.")

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one gradient."""
        return self.weights * self.bytes_per_weight

    @property
    def micro_batch_seconds(self) -> float:
        """Forward and backward of one micro-batch.

        6 operations a weight and token, 2 in the forward and 4 in the backward (Kaplan
        et al. 2020, https://arxiv.org/abs/2001.08361, section 2.1).
        """
        return 6 * self.weights * self.tokens / (self.peak_flops * self.utilisation)


@dataclass(frozen=True)
class Update:
    """What one update costs each process.

    Attributes:
        exchanges: all-reduces.
        reduced_bytes: gradient that goes into them; what a communication hook counts.
        sent_bytes: bytes that one process sends in all of them.
        compute_seconds: forward and backward of its micro-batches.
        waiting_seconds: exchange that no backward hides.
    """

    exchanges: int
    reduced_bytes: float
    sent_bytes: float
    compute_seconds: float
    waiting_seconds: float

    @property
    def seconds(self) -> float:
        """Of the whole update."""
        return self.compute_seconds + self.waiting_seconds

    @property
    def efficiency(self) -> float:
        """Share of the time in which a process computes."""
        return self.compute_seconds / self.seconds


def sent_bytes(processes: int, size: float) -> float:
    """What each process sends in a ring all-reduce of `size`: 2 (p - 1) / p times it.

    No all-reduce can do with less (Patarasuk and Yuan 2009,
    https://doi.org/10.1016/j.jpdc.2008.09.002).
    """
    return 2 * (processes - 1) / processes * size


def all_reduce_seconds(processes: int, size: float, setting: Setting) -> float:
    """A ring all-reduce of `size` bytes: what is sent by the bandwidth, and 2 (p - 1)
    steps, of which those between nodes take the network's latency.

    The first part is that of
    https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md, the second that
    of NCCL's tuning model (see `Setting`). The slowest link of the ring sets the pace.
    """
    nodes = math.ceil(processes / setting.gpus_per_node)
    crossing = 2 * (nodes - 1)
    inside = 2 * (processes - 1) - crossing
    slowest = setting.node_bandwidth if nodes == 1 else setting.network_bandwidth
    return (
        sent_bytes(processes, size) / slowest
        + inside * setting.node_latency
        + crossing * setting.network_latency
    )


def update(processes: int, setting: Setting, *, every_micro_batch: bool) -> Update:
    """One update on `processes` GPUs, each with its own micro-batches.

    Args:
        every_micro_batch: exchange after each micro-batch, as DDP does unless it is
            held back; else once a window, as with `no_sync`.

    Raises:
        ValueError: processes is not a whole number from 1 on.
    """
    if not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes is {processes!r}; give a whole number from 1 on.")
    times = setting.accumulation_steps if every_micro_batch else 1
    size = setting.gradient_bytes / setting.buckets
    one = setting.buckets * all_reduce_seconds(processes, size, setting)
    # The backward is two thirds of a micro-batch: 4 of its 6 operations.
    hidden = setting.overlap * setting.micro_batch_seconds * 2 / 3
    return Update(
        exchanges=setting.buckets * times,
        reduced_bytes=setting.gradient_bytes * times,
        sent_bytes=sent_bytes(processes, setting.gradient_bytes) * times,
        compute_seconds=setting.accumulation_steps * setting.micro_batch_seconds,
        waiting_seconds=times * max(0.0, one - hidden),
    )


def simulate(
    setting: Setting | None = None, processes: Sequence[int] = PROCESSES
) -> dict[str, list[Update]]:
    """One update on each number of processes, by both ways to exchange."""
    setting = setting or Setting()
    return {
        name: [update(p, setting, every_micro_batch=each) for p in processes]
        for name, each in (("every micro-batch", True), ("once a window", False))
    }
