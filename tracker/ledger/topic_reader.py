"""Reads a topic's ledgers in order."""

from enum import Enum


class OpenLedgers(Enum):
    """How to read a ledger that was never closed."""

    LIVE = "live"
    """A writer may be alive: stop at the last entry known to be acknowledged."""
    RECOVERED = "recovered"
    """Nobody writes any more and all bookies' disks are at hand: go on while the next entry is on one of them."""
