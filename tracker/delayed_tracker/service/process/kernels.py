"""All kernels of the service, and the child process that fills the cache with them.

``python -m delayed_tracker.service.process.kernels`` compiles the kernels that are missing from the cache, and prints
how many of how many are compiled. It ends early when its standard input is closed, so it does not outlive the service
that started it.
"""

import contextlib
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import delayed_tracker.core.kernels.compiled
import delayed_tracker.ledger.checksum_kernels
import delayed_tracker.ledger.compaction.kernels
import delayed_tracker.ledger.kernels
import delayed_tracker.ledger.local.files.kernels
import delayed_tracker.ledger.offload.kernels
import delayed_tracker.storage.codec.columnar_kernels
import delayed_tracker.storage.codec.kernels
from delayed_tracker.core.kernels.jit import Kernel, cache_directory
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.service.process.background_threads import NICENESS

_STANDARD_INPUT: Final = 0

SERVICE_KERNELS: Final[Sequence[Kernel[..., Any]]] = (
    *delayed_tracker.core.kernels.compiled.KERNELS,
    *delayed_tracker.storage.codec.columnar_kernels.KERNELS,
    *delayed_tracker.storage.codec.kernels.KERNELS,
    *delayed_tracker.ledger.kernels.KERNELS,
    *delayed_tracker.ledger.checksum_kernels.KERNELS,
    *delayed_tracker.ledger.compaction.kernels.KERNELS,
    *delayed_tracker.ledger.local.files.kernels.KERNELS,
    *delayed_tracker.ledger.offload.kernels.KERNELS,
)


def load_kernels(progress: Progress = lambda _done, _total: None) -> int:
    """Load all kernels from the cache, and compile missing ones into it. Blocks for up to a minute.

    Args:
        progress: called with the number of compiled kernels and of all kernels to compile, if there are any.
    Returns:
        Number of kernels that had to be compiled.
    """
    missing = [kernel for kernel in SERVICE_KERNELS if not kernel.load_cached()]
    for done, kernel in enumerate(missing):
        progress(done, len(missing))
        kernel.load()
        progress(done + 1, len(missing))
    return len(missing)


def is_cache_writable() -> bool:
    """Return True if machine code can be kept for later processes. Creates the directory if it is missing."""
    try:
        Path(cache_directory()).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_directory()):
            return True
    except OSError:
        return False


def _end_with_standard_input() -> None:
    # Not through sys.stdin: Python aborts at its end while a thread holds the lock of that buffer.
    while os.read(_STANDARD_INPUT, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # a filter of system calls may refuse it
        os.nice(NICENESS)  # calls of the service have priority
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    load_kernels(lambda done, total: print(done, total, flush=True))  # noqa: T201  # read by the service
