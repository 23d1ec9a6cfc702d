"""How kernels are compiled: lazily, once for each user of a machine, each under the one signature that it declares.

A kernel is a pure function over columns whose loop runs as machine code. Rules for writing one:

- Declare argument types with :meth:`Kernels.add`. A read-only C-contiguous array type takes writable arrays too, so one
  compilation serves all callers; kernels never compile anew because somebody passed a frozen column.
- Only what the module itself defines may be used inside: the cache notices changes of the kernel's own file alone.
  That holds for constants, too.
- The GIL is released, so arguments must not change during the call, and results are arrays or numbers.
- Results are the same with ``NUMBA_DISABLE_JIT=1``, where the function runs as it is written: widen a value of a narrow
  column with ``np.int64(...)`` before shifting it, and never let an ``int64`` overflow.
- Nothing raises inside. A kernel returns where it stopped; its caller knows the words for that.

Machine code is kept in ``delayed-tracker`` under the user's cache directory (``XDG_CACHE_HOME``), or where
``NUMBA_CACHE_DIR`` says. Where neither can be written, each process compiles for itself. A process that must answer
meanwhile runs kernels as they are written (:meth:`Kernel.interpret`) until another has filled the cache.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from numba import config, njit, types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import user_cache_dir

from delayed_tracker.core.kernels import compile_notice

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def column(element: types.Type) -> types.Array:
    """The type of a contiguous one-dimensional array that a kernel only reads."""
    return types.Array(element, 1, "C", readonly=True)


INT64: Final = types.int64
COLUMN: Final = column(types.int64)
OCTETS: Final = column(types.uint8)

# Its attributes are made at run time.
_settings: Final[Any] = config


class Kernel(Generic[Arguments, Answer]):
    """A function that is compiled, or read from the cache, at its first call or by :meth:`load`. Thread-safe."""

    def __init__(self, function: Callable[Arguments, Answer], argument_types: tuple[types.Type, ...]) -> None:
        self.function = function
        """As it is written."""
        self._argument_types = argument_types
        self._running: Callable[Arguments, Answer] | None = None
        self._is_loaded = False

    @property
    def is_loaded(self) -> bool:
        """True if calls run machine code, or if nothing is compiled in this process (``NUMBA_DISABLE_JIT=1``)."""
        return self._is_loaded

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        """Give what the function gives for these arguments."""
        return (self._running or self.load())(*args, **kwargs)

    def load(self) -> Callable[Arguments, Answer]:
        """Have the machine code ready. Milliseconds from the cache, else up to some seconds."""
        if self._running is not None and self._is_loaded:
            return self._running
        if self.load_cached():
            return self.load()
        compile_notice.tell()
        try:
            return self._run_from_now_on(self._compile(cached=True))
        except (OSError, EOFError, UnpicklingError):
            # A cache that is full, damaged or gone is no reason to fail.
            return self._run_from_now_on(self._compile(cached=False))

    def load_cached(self) -> bool:
        """Have the machine code ready if the cache has it; False, and nothing changes, if it would be compiled."""
        if self._is_loaded:
            return True
        if _settings.DISABLE_JIT:
            self._run_from_now_on(self.function)
            return True
        try:
            # Nothing but this can begin to compile while the lock is held.
            with global_compiler_lock, event.install_listener("numba:compile", _Refusal()):
                self._run_from_now_on(self._compile(cached=True))
        except (_NotCached, OSError, EOFError, UnpicklingError):
            return False
        return True

    def interpret(self) -> None:
        """Run calls as the function is written, much slower, until it is loaded."""
        if not self._is_loaded:
            self._running = self.function

    def _run_from_now_on(self, function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        # In this order: a thread between the two would load again, and harm nothing.
        self._running = function
        self._is_loaded = True
        return function

    def _compile(self, *, cached: bool) -> Callable[Arguments, Answer]:
        dispatcher = njit(nogil=True)(self.function)
        if cached:
            _keep_in_cache(dispatcher)
        dispatcher.compile(self._argument_types)
        dispatcher.disable_compile()
        compiled: Callable[Arguments, Answer] = dispatcher
        return compiled


class _NotCached(Exception):
    """The cache lacks a kernel that may not be compiled now."""


class _Refusal(event.Listener):
    """Ends a compilation before it begins."""

    def on_start(self, _event: event.Event) -> None:
        raise _NotCached

    def on_end(self, _event: event.Event) -> None:
        pass


def cache_directory() -> str:
    """Name the directory that keeps machine code; nothing says that it can be written."""
    return str(_settings.CACHE_DIR or user_cache_dir("delayed-tracker"))  # type: ignore[no-untyped-call]


@contextmanager
def cached_in(directory: str) -> Iterator[None]:
    """Keep machine code in another directory within this block. It holds for all threads, so for one block at a time."""
    chosen = _settings.CACHE_DIR
    _settings.CACHE_DIR = directory
    try:
        yield
    finally:
        _settings.CACHE_DIR = chosen


def _keep_in_cache(dispatcher: Any) -> None:
    """Choose the cache of one kernel; numba asks its settings at this moment only, and they are put back."""
    with global_compiler_lock:
        chosen = _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES
        _settings.CACHE_DIR = cache_directory()
        # Else numba would go on to try the directory of the source.
        _settings.CACHE_LOCATOR_CLASSES = "UserProvidedCacheLocator"
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            return  # It cannot be written.
        finally:
            _settings.CACHE_DIR, _settings.CACHE_LOCATOR_CLASSES = chosen


class Kernels(Sequence[Kernel[..., Any]]):
    """The kernels of one module, in the order of their definition."""

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
        """Decorate a function to make it a kernel with these argument types."""

        def make(function: Callable[Arguments, Answer]) -> Kernel[Arguments, Answer]:
            kernel = Kernel(function, argument_types)
            self._kernels.append(kernel)
            return kernel

        return make

    def load(self) -> None:
        """Load all of them, so that no later call has to."""
        for kernel in self._kernels:
            kernel.load()
