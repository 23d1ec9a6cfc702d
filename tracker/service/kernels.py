"""Loading all compiled kernels at the start of the service, so that no call waits for a compilation."""

# numba asks whether an array is masked when it first sees one that is read-only: in the middle of a call, it would import
# this then, and every other call would wait.
import numpy.ma  # noqa: F401
import structlog

import snapshot_storage.kernels
import tracker.core.kernels
import tracker.ledger.checksum_kernels
import tracker.ledger.compaction.kernels
import tracker.ledger.kernels
import tracker.ledger.local.kernels
import tracker.ledger.offload.kernels

_log = structlog.stdlib.get_logger("tracker.service")


def warm_up_kernels() -> None:
    """Load them from the user's cache, or compile them, which takes some seconds once and is logged. Blocks."""
    announced = False

    def announce() -> None:
        nonlocal announced
        if not announced:
            _log.info("compiling kernels; this takes some seconds, once for each version and user")
        announced = True

    for module in (
        tracker.core.kernels,
        snapshot_storage.kernels,
        tracker.ledger.kernels,
        tracker.ledger.checksum_kernels,
        tracker.ledger.compaction.kernels,
        tracker.ledger.local.kernels,
        tracker.ledger.offload.kernels,
    ):
        module.warm_up(announce)
    if announced:
        _log.info("kernels are compiled")
