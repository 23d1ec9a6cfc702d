"""The dispatcher's client: typed, asynchronous, with no dependency on numpy or on the service.

Programs without an event loop import ``DelayedTrackerClient`` from ``tracker.client.blocking``, and the rest from here.
"""

from tracker.client.add_stream import IndexBatch
from tracker.client.answers import (
    AckAnswer,
    AddAnswer,
    AddResult,
    CancelAnswer,
    DueMessages,
    EntryRange,
    ExtendAnswer,
    MarkDeleteAnswer,
    NackAnswer,
    NextDelivery,
    OpenAnswer,
    Position,
    ResetAnswer,
)
from tracker.client.client import DelayedTrackerClient
from tracker.client.errors import (
    BatchTooLarge,
    CallTimedOut,
    Cleared,
    DataLoss,
    Fenced,
    ImportRefused,
    InvalidArgument,
    NotConnected,
    NotFound,
    Overloaded,
    ServiceFault,
    SessionClosed,
    TrackerCallError,
    TrackerNotOpen,
    Unanswerable,
    Unavailable,
    WrongEventLoop,
)
from tracker.client.importing import ImportAnswer, SnapshotToImport
from tracker.client.lease import Lease
from tracker.client.ledger_answers import (
    EntryPage,
    IndexLookupMode,
    MessageId,
    StoredEntry,
    TimeSeek,
    UnreadableEntries,
)
from tracker.client.ledgers import LedgerClient
from tracker.client.reports import (
    Bucket,
    BucketState,
    DeliveryHistogram,
    Explanation,
    MessagePlace,
    PeekedMessages,
    SnapshotReport,
    SnapshotVerdict,
    TrackerStats,
    TrackerSummary,
)
from tracker.client.session import TrackerSession
from tracker.client.settings import ClientSettings
from tracker.client.view import TrackerView
from tracker.core.errors import DelayedTrackerError, InvalidInput

__all__ = [
    "AckAnswer",
    "AddAnswer",
    "AddResult",
    "BatchTooLarge",
    "Bucket",
    "BucketState",
    "CallTimedOut",
    "CancelAnswer",
    "Cleared",
    "ClientSettings",
    "DataLoss",
    "DelayedTrackerClient",
    "DelayedTrackerError",
    "DeliveryHistogram",
    "DueMessages",
    "EntryPage",
    "EntryRange",
    "Explanation",
    "ExtendAnswer",
    "Fenced",
    "ImportAnswer",
    "ImportRefused",
    "IndexBatch",
    "IndexLookupMode",
    "InvalidArgument",
    "InvalidInput",
    "Lease",
    "LedgerClient",
    "MarkDeleteAnswer",
    "MessageId",
    "MessagePlace",
    "NackAnswer",
    "NextDelivery",
    "NotConnected",
    "NotFound",
    "OpenAnswer",
    "Overloaded",
    "PeekedMessages",
    "Position",
    "ResetAnswer",
    "ServiceFault",
    "SessionClosed",
    "SnapshotReport",
    "SnapshotToImport",
    "SnapshotVerdict",
    "StoredEntry",
    "TimeSeek",
    "TrackerCallError",
    "TrackerNotOpen",
    "TrackerSession",
    "TrackerStats",
    "TrackerSummary",
    "TrackerView",
    "Unanswerable",
    "Unavailable",
    "UnreadableEntries",
    "WrongEventLoop",
]
