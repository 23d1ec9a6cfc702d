"""Compilation of kernels: lazy, once for each user of a machine, for the one signature that each kernel declares.

A kernel is a pure function over columns whose loop runs as machine code. Rules for writing one:

- Declare argument types with :meth:`Kernels.add`. A read-only C-contiguous array type takes writable arrays too, so one
  compilation serves all callers; a frozen column never causes another compilation.
- Use only names that the module itself defines: the cache detects changes of the kernel's own file only. This includes
  constants.
- The GIL is released, so arguments must not change during the call, and results are arrays or numbers.
- Results are the same with ``NUMBA_DISABLE_JIT=1``, which runs the Python function: widen a value of a narrow column
  with ``np.int64(...)`` before shifting it, and never let an ``int64`` overflow.
- A kernel does not raise. It returns the place where it stopped; its caller raises the error.

Machine code is kept in ``delayed-tracker`` under the user's cache directory (``XDG_CACHE_HOME``), or in
``NUMBA_CACHE_DIR`` if that is set. What is there is used even if it cannot be written, as in a read-only image; what it
lacks, each process then compiles for itself. A process that must answer in the meantime runs the Python functions
(:meth:`Kernel.interpret`) until another process has filled the cache.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from numba import config, njit, types
from numba.core import event
from numba.core.caching import UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import user_cache_dir

from delayed_tracker.core.kernels import compile_notice

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def column(element: types.Type) -> types.Array:
    """Return the type of a contiguous one-dimensional array that a kernel only reads."""
    return types.Array(element, 1, "C", readonly=True)


INT64: Final = types.int64
COLUMN: Final = column(types.int64)
OCTETS: Final = column(types.uint8)

# numba creates the attributes of its configuration at run time.
_settings: Final[Any] = config


class Kernel(Generic[Arguments, Answer]):
    """Function that is compiled, or read from the cache, at its first call or by :meth:`load`. Thread-safe."""

    def __init__(self, function: Callable[Arguments, Answer], argument_types: tuple[types.Type, ...]) -> None:
        self.function = function
        """Python function."""
        self._argument_types = argument_types
        self._running: Callable[Arguments, Answer] | None = None
        self._is_loaded = False

    @property
    def is_loaded(self) -> bool:
        """True if calls run machine code, or if nothing is compiled in this process (``NUMBA_DISABLE_JIT=1``)."""
        return self._is_loaded

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        """Return the result of the function for these arguments."""
        return (self._running or self.load())(*args, **kwargs)

    def load(self) -> Callable[Arguments, Answer]:
        """Load the machine code, or compile it. Milliseconds from the cache, else up to some seconds."""
        if self._running is not None and self._is_loaded:
            return self._running
        if self.load_cached():
            return self.load()
        compile_notice.tell()
        try:
            return self._run_from_now_on(self._compile(UserProvidedCacheLocator))
        except (OSError, EOFError, UnpicklingError):
            # A cache that is full, damaged or gone must not cause a failure.
            return self._run_from_now_on(self._compile(None))

    def load_cached(self) -> bool:
        """Load the machine code if the cache has it.

        Returns: False if it would have to be compiled; then nothing has changed.
        """
        if self._is_loaded:
            return True
        if _settings.DISABLE_JIT:
            self._run_from_now_on(self.function)
            return True
        try:
            # While the lock is held, no other thread can begin to compile.
            with global_compiler_lock, event.install_listener("numba:compile", _Refusal()):
                self._run_from_now_on(self._compile(ReadOnlyCacheLocator))
        except (_NotCached, OSError, EOFError, UnpicklingError):
            return False
        return True

    def interpret(self) -> None:
        """Run the Python function, which is much slower, until the machine code is loaded."""
        if not self._is_loaded:
            self._running = self.function

    def _run_from_now_on(self, function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        # In this order: a thread between the two assignments only loads the same code again.
        self._running = function
        self._is_loaded = True
        return function

    def _compile(self, locator: type[UserProvidedCacheLocator] | None) -> Callable[Arguments, Answer]:
        dispatcher = njit(nogil=True)(self.function)
        if locator is not None:
            _keep_in_cache(dispatcher, locator)
        dispatcher.compile(self._argument_types)
        dispatcher.disable_compile()
        compiled: Callable[Arguments, Answer] = dispatcher
        return compiled


class ReadOnlyCacheLocator(UserProvidedCacheLocator):
    """Place of the cache for processes that only read it: the directory need not be writable, as in an image."""

    def ensure_cache_path(self) -> None:
        """Accept any directory; one that is missing holds nothing."""


class _NotCached(Exception):
    """The cache lacks a kernel that may not be compiled now."""


class _Refusal(event.Listener):
    """Ends a compilation before it begins."""

    def on_start(self, _event: event.Event) -> None:
        raise _NotCached

    def on_end(self, _event: event.Event) -> None:
        pass


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


def _keep_in_cache(dispatcher: Any, locator: type[UserProvidedCacheLocator]) -> None:
    """Set the cache of one kernel. numba reads its settings only at this moment; they are restored afterwards."""
    with global_compiler_lock:
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


class Kernels(Sequence[Kernel[..., Any]]):
    """Kernels of one module, in the order of their definition."""

    def __init__(self) -> None:
        self._kernels: list[Kernel[..., Any]] = []

    @overload
    def __getitem__(self, place: int) -> Kernel[..., Any]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Kernel[..., Any]]: ...

    def __getitem__(self, place: int | slice) -> Kernel[..., Any] | Sequence[Kernel[..., Any]]:
        return self._kernels[place]

    def __len__(self) -> int:
        return len(self._kernels)

    def add(self, *argument_types: types.Type) -> Callable[[Callable[Arguments, Answer]], Kernel[Arguments, Answer]]:
        """Return a decorator that makes a function a kernel with these argument types."""

        def make(function: Callable[Arguments, Answer]) -> Kernel[Arguments, Answer]:
            kernel = Kernel(function, argument_types)
            self._kernels.append(kernel)
            return kernel

        return make

    def load(self) -> None:
        """Load all kernels, so that no later call has to."""
        for kernel in self._kernels:
            kernel.load()
