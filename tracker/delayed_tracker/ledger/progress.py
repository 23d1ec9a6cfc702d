"""The type of progress callbacks."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the amount done and the total from time to time, and once at the end. Each job documents its unit: bytes,
or entries including skipped ones."""
