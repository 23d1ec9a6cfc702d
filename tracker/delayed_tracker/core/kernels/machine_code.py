"""The part of compilation that needs numba, whose import takes a quarter of a second: ``jit`` imports it when a kernel
is loaded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any, Final

# numba checks if an array is masked when it first meets a read-only one. It would import this in the middle of a call,
# and all other calls would wait.
import numpy.ma  # noqa: F401
from numba import config, njit, types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import register_jitable
from numba.misc.appdirs import user_cache_dir

_DAMAGED_CACHE: Final = (EOFError, UnpicklingError)
UNUSABLE_CACHE: Final = (OSError, *_DAMAGED_CACHE)
"""Errors of a cache that is full, damaged or gone, which must not cause a failure."""

COMPILER_LOCK: Final = global_compiler_lock
"""Held by the one thread that compiles or registers; it may take it again."""

# numba creates the attributes of its configuration at run time.
_settings: Final[Any] = config


class NotCached(Exception):
    """The cache lacks a kernel that may not be compiled now."""


class ReadOnlyCacheLocator(UserProvidedCacheLocator):
    """Place of the cache for processes that only read it: the directory need not be writable, as in an image."""

    def ensure_cache_path(self) -> None:
        """Accept any directory; one that is missing holds nothing."""


class _Refusal(event.Listener):
    """Ends a compilation before it begins."""

    def on_start(self, _event: event.Event) -> None:
        raise NotCached

    def on_end(self, _event: event.Event) -> None:
        pass


def is_disabled() -> bool:
    """Return True if nothing is compiled in this process (``NUMBA_DISABLE_JIT=1``)."""
    return bool(_settings.DISABLE_JIT)


def make_jitable(function: Callable[..., Any], *, forceinline: bool) -> None:
    """Let kernels call a function of their module."""
    register_jitable(forceinline=forceinline)(function)


def compiled(function: Callable[..., Any], arguments: Sequence[tuple[str, bool]], *, keep: bool) -> Callable[..., Any]:
    """Return a function as machine code, from the cache or compiled. What is damaged in the cache is replaced.

    Args:
        function: of a kernel.
        arguments: numba's name of each element type, and True for a column of them.
        keep: True to keep it in the cache.
    """
    locator = UserProvidedCacheLocator if keep else None
    try:
        return _compiled(function, arguments, locator)
    except _DAMAGED_CACHE:
        return _compiled(function, arguments, locator, begins_anew=True)


def cached(function: Callable[..., Any], arguments: Sequence[tuple[str, bool]]) -> Callable[..., Any]:
    """Return a function as machine code from the cache.

    Raises:
        NotCached: it would have to be compiled.
    """
    # While the lock is held, no other thread can begin to compile.
    with COMPILER_LOCK, event.install_listener("numba:compile", _Refusal()):
        return _compiled(function, arguments, ReadOnlyCacheLocator)


def _compiled(
    function: Callable[..., Any],
    arguments: Sequence[tuple[str, bool]],
    locator: type[UserProvidedCacheLocator] | None,
    *,
    begins_anew: bool = False,
) -> Callable[..., Any]:
    dispatcher = njit(nogil=True)(function)
    if locator is not None:
        _keep_in_cache(dispatcher, locator, begins_anew=begins_anew)
    dispatcher.compile(tuple(_type_of(element, is_column=is_column) for element, is_column in arguments))
    dispatcher.disable_compile()
    code: Callable[..., Any] = dispatcher
    return code


def _type_of(element: str, *, is_column: bool) -> types.Type:
    scalar: types.Type = getattr(types, element)
    return types.Array(scalar, 1, "C", readonly=True) if is_column else scalar


def cache_directory() -> str:
    """Return the directory for machine code; it may not be writable."""
    return str(_settings.CACHE_DIR or user_cache_dir("delayed-tracker"))  # type: ignore[no-untyped-call]


@contextmanager
def cached_in(directory: str) -> Iterator[None]:
    """Keep machine code in another directory within this block.

    It applies to all threads, so to one block at a time.
    """
    chosen = _settings.CACHE_DIR
    _settings.CACHE_DIR = directory
    try:
        yield
    finally:
        _settings.CACHE_DIR = chosen


def _keep_in_cache(dispatcher: Any, locator: type[UserProvidedCacheLocator], *, begins_anew: bool) -> None:
    """Set the cache of one kernel, and empty it if it begins anew.

    numba reads its settings only at this moment; they are restored afterwards.
    """
    with COMPILER_LOCK:
        chosen = _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES
        _settings.CACHE_DIR = cache_directory()
        # Otherwise numba would also try the directory of the source file.
        _settings.CACHE_LOCATOR_CLASSES = f"{locator.__module__}.{locator.__qualname__}"
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            return  # The directory cannot be written.
        finally:
            _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = chosen
        if begins_anew:
            dispatcher._cache.flush()  # noqa: SLF001  # numba has no public name for it
