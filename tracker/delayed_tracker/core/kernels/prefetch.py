"""Loads of cache lines before they are needed, for kernels that follow records from one to the next.

The offset of a record follows only from the record before it, so the processor cannot prefetch by itself. A record outside
of the caches takes 100 ns without this, and 30 ns with it.

Kernels of any module may use what is here, although the cache of machine code detects changes of their own module only: it
changes no result.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import before_compiling, jitable

CACHE_LINE_BYTES: Final = 64
_LOOK_AHEAD_BYTES: Final = 4096


def prefetch(octets: NDArray[np.uint8], at: int | np.int64) -> None:
    """Do nothing; compiled code begins to load the cache line of an octet, if the array has it."""


@before_compiling
def _register_prefetch() -> None:
    from llvmlite import ir  # noqa: PLC0415  # as numba
    from numba import types  # noqa: PLC0415  # see the rules of kernels
    from numba.core import cgutils  # noqa: PLC0415
    from numba.extending import intrinsic, overload  # noqa: PLC0415

    @intrinsic
    def prefetch_line(_typing: Any, octets: Any, _at: Any) -> Any:
        """Start to load the cache line of an octet. Does nothing if the octet is outside of the array."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = cgutils.pointer_add(builder, array.data, arguments[1])  # type: ignore[no-untyped-call]
            number = ir.IntType(32)
            function = builder.module.declare_intrinsic(
                "llvm.prefetch", [place.type], ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
            )
            for_reading, as_long_as_possible, not_code = number(0), number(3), number(1)
            builder.call(function, [place, for_reading, as_long_as_possible, not_code])
            return context.get_dummy_value()

        return types.void(octets, types.intp), generate

    @overload(prefetch, strict=False)
    def compile_prefetch(*_types: Any) -> Callable[..., Any]:
        def compiled(octets: Any, at: Any) -> None:
            prefetch_line(octets, at)  # type: ignore[call-arg]  # numba gives the first

        return compiled


@jitable(forceinline=True)
def prefetch_behind(octets: NDArray[np.uint8], at: int | np.int64, done: int | np.int64) -> int | np.int64:
    """Begin to load what a walk from one record to the next soon meets.

    Args:
        octets: where the records are.
        at: offset of the record.
        done: what the call for the record before returned; any offset up to ``at`` for the first.
    Returns: the offset up to which lines are being loaded.
    """
    done = max(done, at)
    while done < at + _LOOK_AHEAD_BYTES:
        prefetch(octets, done)
        done += CACHE_LINE_BYTES
    return done
