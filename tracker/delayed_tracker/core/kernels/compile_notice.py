"""Callbacks before the first compilation of a process, which takes seconds.

This module is separate from ``jit``, so that a command can register a callback without importing numba, which it may
never need.
"""

from collections.abc import Callable

_callbacks: list[Callable[[], None]] = []


def call_once_before_compiling(callback: Callable[[], None]) -> None:
    """Register a callback that runs once, before the next compilation begins."""
    _callbacks.append(callback)


def tell() -> None:
    """Run the registered callbacks."""
    while _callbacks:
        _callbacks.pop()()
