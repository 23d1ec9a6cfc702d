"""A word before the first compilation of a process, which takes seconds.

It stands apart from ``jit``, so that a command can ask for it without importing numba, which it may never need.
"""

from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []


def call_once_before_compiling(callback: Callable[[], None]) -> None:
    """Have the next compilation call back before it begins; those after it do not."""
    _callbacks.append(callback)


def tell() -> None:
    """Call whoever has asked for it."""
    while _callbacks:
        _callbacks.pop()()
