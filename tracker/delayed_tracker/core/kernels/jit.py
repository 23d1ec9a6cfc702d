"""Compilation of kernels: lazy, once for each user of a machine, for the one signature that each kernel declares.

A kernel is a pure function over columns whose loop runs as machine code. Rules for writing one:

- Declare argument types with :meth:`Kernels.add`. A read-only C-contiguous array type takes writable arrays too, so one
  compilation serves all callers; a frozen column never causes another compilation.
- Use only names that the module itself defines: the cache detects changes of the kernel's own file only. This includes
  constants. What changes no result may be another module's: :mod:`delayed_tracker.core.kernels.prefetch`.
- The GIL is released, so arguments must not change during the call, and results are arrays or numbers.
- Results are the same with ``NUMBA_DISABLE_JIT=1``, which runs the Python function: widen a value of a narrow column
  with ``np.int64(...)`` before shifting it, and never let an ``int64`` overflow.
- A kernel does not raise. It returns the place where it stopped; its caller raises the error.

Machine code is kept in ``delayed-tracker`` under the user's cache directory (``XDG_CACHE_HOME``), or in
``NUMBA_CACHE_DIR`` if that is set. What is there is used even if it cannot be written, as in a read-only image; what it
lacks, each process then compiles for itself. A process that must answer in the meantime runs the Python functions
(:meth:`Kernel.interpret`) until another process has filled the cache.

Modules of kernels import nothing of numba, because its import would take a quarter of the time in which the service
starts. Functions that kernels call are :func:`jitable`; what else numba has to know is a function that
:func:`before_compiling` decorates. All of it is done when the first kernel is loaded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from delayed_tracker.core.kernels import compile_notice

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class ArgumentType(NamedTuple):
    """Type of a kernel's argument."""

    element: str
    """Name that numba has for it."""
    is_column: bool = False
    """True for a contiguous one-dimensional array of them, which the kernel only reads."""


INT64: Final = ArgumentType("int64")
BOOLEAN: Final = ArgumentType("boolean")
COLUMN: Final = ArgumentType("int64", is_column=True)
OCTETS: Final = ArgumentType("uint8", is_column=True)

INTERPRETED_MAX: Final = 4_096
"""Elements of all columns of a call up to which running it as Python takes less than loading: some milliseconds."""

_registrations: Final[list[Callable[[], None]]] = []
"""Registrations with numba that have to precede the next kernel."""


def before_compiling(register: Callable[[], None]) -> Callable[[], None]:
    """Call a function that imports numba, to register what kernels use, before the next kernel is loaded."""
    _registrations.append(register)
    return register


def jitable(*, forceinline: bool = False) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator for a function that kernels of its module call."""

    def mark(function: FunctionT) -> FunctionT:
        before_compiling(lambda: _numba().make_jitable(function, forceinline=forceinline))
        return function

    return mark


def _numba() -> ModuleType:
    from delayed_tracker.core.kernels import machine_code  # noqa: PLC0415  # imports numba

    return machine_code


def _compiler() -> ModuleType:
    """Return the module that compiles, when numba knows everything that was registered."""
    machine_code = _numba()
    with machine_code.COMPILER_LOCK:  # a thread that comes meanwhile waits until all of it is registered
        while _registrations:
            _registrations.pop(0)()
    return machine_code


class Kernel(Generic[Arguments, Answer]):
    """Function that is compiled, or read from the cache, at its first call or by :meth:`load`. Thread-safe."""

    def __init__(self, function: Callable[Arguments, Answer], argument_types: tuple[ArgumentType, ...]) -> None:
        self.function = function
        """Python function."""
        self._argument_types = argument_types
        self._loaded: Callable[Arguments, Answer] | None = None
        self._meanwhile: Callable[Arguments, Answer] | None = None
        """Function that runs until the machine code is loaded; another thread may set it afterwards."""

    @property
    def is_loaded(self) -> bool:
        """True if calls run machine code, or if nothing is compiled in this process (``NUMBA_DISABLE_JIT=1``)."""
        return self._loaded is not None

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        """Return the result of the function for these arguments."""
        return (self._loaded or self._meanwhile or self.load())(*args, **kwargs)

    def load(self) -> Callable[Arguments, Answer]:
        """Load the machine code, or compile it. Milliseconds from the cache, else up to some seconds."""
        if self._loaded is not None:
            return self._loaded
        if self.load_cached():
            return self.load()
        compile_notice.tell()
        compiler = _compiler()
        try:
            return self._run_from_now_on(compiler.compiled(self.function, self._argument_types, keep=True))
        except compiler.UNUSABLE_CACHE:
            return self._run_from_now_on(compiler.compiled(self.function, self._argument_types, keep=False))

    def load_cached(self) -> bool:
        """Load the machine code if the cache has it.

        Returns: False if it would have to be compiled; then nothing has changed.
        """
        if self._loaded is not None:
            return True
        compiler = _compiler()
        if compiler.is_disabled():
            self._run_from_now_on(self.function)
            return True
        try:
            self._run_from_now_on(compiler.cached(self.function, self._argument_types))
        except (compiler.NotCached, *compiler.UNUSABLE_CACHE):
            return False
        return True

    def load_or_interpret(self, may_wait: Callable[[], bool]) -> None:
        """Until the machine code is loaded, run the Python function for short columns, and for callers that may not wait.

        Another call loads. If the cache lacks the machine code, it runs the Python function, too.

        Args:
            may_wait: returns False in a thread that must not wait for another one that imports numba or loads, as an
                event loop's.
        """

        def first_call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            if _element_count(args) <= INTERPRETED_MAX or not may_wait():
                return self.function(*args, **kwargs)
            if not self.load_cached():
                self.interpret()
            return self(*args, **kwargs)

        self._meanwhile = first_call

    def interpret(self) -> None:
        """Run the Python function, which is much slower, until the machine code is loaded."""
        self._meanwhile = self.function

    def _run_from_now_on(self, function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        self._loaded = function
        return function


def _element_count(arguments: tuple[object, ...]) -> int:
    return sum(argument.size for argument in arguments if isinstance(argument, np.ndarray))


def cache_directory() -> str:
    """Return the directory for machine code; it may not be writable."""
    directory: str = _numba().cache_directory()
    return directory


@contextmanager
def cached_in(directory: str) -> Iterator[None]:
    """Keep machine code in another directory within this block.

    It applies to all threads, so to one block at a time.
    """
    with _numba().cached_in(directory):
        yield


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

    def add(self, *argument_types: ArgumentType) -> Callable[[Callable[Arguments, Answer]], Kernel[Arguments, Answer]]:
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
