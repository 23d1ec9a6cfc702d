"""Client for programs without an event loop: the names of ``delayed_tracker.client``, with calls that block.

The rules (the calls, their batches and retries, the meaning of errors) are those of ``delayed_tracker.client``, written
once. Settings, answers and errors are the same classes and are imported from there.
Open ``client.py`` first; its parts are generated from those of ``aio``.
"""

from delayed_tracker.client.blocking.client import DelayedTrackerClient
from delayed_tracker.client.blocking.lease import Lease
from delayed_tracker.client.blocking.ledgers import LedgerClient
from delayed_tracker.client.blocking.session import TrackerSession
from delayed_tracker.client.blocking.view import TrackerView

__all__ = ["DelayedTrackerClient", "Lease", "LedgerClient", "TrackerSession", "TrackerView"]
