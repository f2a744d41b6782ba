"""Exercise 6.8 of lesson 6: the bytes that a ring all-reduce sends."""

from __future__ import annotations

from ..exercises import Exercise, Wrong, call, number

LESSON = "06_several_processes"
CASES = ((4, 1200), (8, 400), (2, 50), (1, 64))  # processes, bytes


def ring(processes: int, size: int) -> tuple[int, bool]:
    """A ring all-reduce, played: bytes that each process sends, and if all is summed.

    Every process has a vector of its own, cut into as many parts as there are
    processes; `size` has to be divisible by their number.
    """
    held = [[1 << rank] * processes for rank in range(processes)]
    sent = 0
    for step in range(2 * (processes - 1)):
        adding = step < processes - 1
        moving = [(rank, (rank - step) % processes) for rank in range(processes)]
        if not adding:
            turn = step - processes + 1
            moving = [(rank, (rank + 1 - turn) % processes) for rank, _ in moving]
        words = [held[rank][part] for rank, part in moving]
        for (rank, part), word in zip(moving, words, strict=True):
            other = held[(rank + 1) % processes]
            other[part] = other[part] + word if adding else word
        sent += size // processes
    whole = (1 << processes) - 1
    return sent, all(part == whole for own in held for part in own)


def _sent_bytes(answer) -> str:
    for processes, size in CASES:
        found = number(call(answer, processes, size))
        wanted, _ = ring(processes, size)
        if abs(found - wanted) > 1e-9 * max(1, wanted):
            raise Wrong(_why(found, processes, size, wanted), hint=1)
    return (
        "Nearly twice the gradient, however many processes there are: each sends "
        "2 (p - 1) parts of size / p."
    )


def _why(found: float, p: int, size: int, wanted: int) -> str:
    known = {
        (p - 1) * size / p: "That is the first round, which adds up. Another p − 1 "
        "steps hand the complete parts on.",
        2 * (p - 1) * size: "Each step sends one part, and a part is size / p.",
        (p - 1) * size: "That is what each would send if it gave its whole gradient "
        "to every other. In a ring each step sends one part, to one neighbour.",
        2 * size: "Nearly: in each round a process sends all parts but one.",
        2 * size * (p + 1) / p: "There are p − 1 steps in each round, not p + 1.",
        size: "That is the gradient once.",
        2 * size / p: "That is one part in each round. How many steps has a round?",
    }
    why = next((w for value, w in known.items() if abs(found - value) < 1e-6), "")
    return (
        f"We played it: of {p} processes each sends {wanted:g} bytes for a gradient of "
        f"{size} bytes, and you say {found:g}. {why}"
    ).rstrip()


sent_bytes = Exercise(
    "6.8",
    "sent_bytes",
    _sent_bytes,
    hints=[
        "How many steps have both rounds, and how much is sent in one step?",
        "2 (p - 1) steps, each of size / p bytes.",
    ],
    lesson=LESSON,
)
