"""The client for programs without an event loop: the names of ``tracker.client``, with calls that block.

The rules (what is sent, split, retried and refused, and which error means what) are those of ``tracker.client``, written
once; settings, answers and errors are the same classes and are imported from there.
"""

from tracker.client.blocking.client import DelayedTrackerClient
from tracker.client.blocking.lease import Lease
from tracker.client.blocking.ledgers import LedgerClient
from tracker.client.blocking.session import TrackerSession
from tracker.client.blocking.view import TrackerView

__all__ = ["DelayedTrackerClient", "Lease", "LedgerClient", "TrackerSession", "TrackerView"]
