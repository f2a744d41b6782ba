"""Measures what the course promises; `python -m benchmarks` runs it."""
