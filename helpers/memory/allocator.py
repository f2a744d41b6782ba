"""The CUDA allocator's own peaks, read so that nested meters do not disturb another."""

from __future__ import annotations

import torch

_watching: list[AllocatorPeak] = []


class AllocatorPeak:
    """Peak bytes allocated and reserved on a CUDA device since `start`.

    PyTorch keeps one peak for a device, and starting a measurement resets it; so each
    start first lets the watchers that are already there read theirs.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._allocated = self._reserved = 0

    def start(self) -> None:
        """Begin here, or begin anew."""
        for other in _watching:
            if other is not self and other.device == self.device:
                other.read()
        torch.cuda.reset_peak_memory_stats(self.device)
        self._allocated = self._reserved = 0
        if self not in _watching:
            _watching.append(self)

    def read(self) -> tuple[int, int]:
        """Peak bytes (allocated, reserved) so far."""
        if self in _watching:
            allocated = torch.cuda.max_memory_allocated(self.device)
            reserved = torch.cuda.max_memory_reserved(self.device)
            self._allocated = max(self._allocated, allocated)
            self._reserved = max(self._reserved, reserved)
        return self._allocated, self._reserved

    def stop(self) -> None:
        """Keep what was read; leave the device's statistics to others."""
        self.read()
        _watching.remove(self)
