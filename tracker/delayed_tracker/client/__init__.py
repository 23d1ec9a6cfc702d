"""Client for dispatchers: typed, asynchronous, with no dependency on numpy or on the service.

Programs without an event loop import ``DelayedTrackerClient`` from ``delayed_tracker.client.blocking``, and the rest
from here. Calls of a dispatcher go in, frozen answers or errors come out.
Open ``aio/client.py`` first.
"""

from delayed_tracker.client.aio.client import DelayedTrackerClient
from delayed_tracker.client.aio.lease import Lease
from delayed_tracker.client.aio.ledgers import LedgerClient
from delayed_tracker.client.aio.offers import Offers
from delayed_tracker.client.aio.session import TrackerSession
from delayed_tracker.client.aio.view import TrackerView
from delayed_tracker.client.errors import (
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
    PermissionDenied,
    QueryNotSupported,
    ServiceFault,
    SessionClosed,
    ThreadNotStarted,
    TlsFailed,
    TrackerCallError,
    TrackerNotOpen,
    Unauthenticated,
    Unavailable,
    WrongEventLoop,
    WrongThread,
)
from delayed_tracker.client.model.answers import (
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
    RescheduleAnswer,
    RescheduleResult,
    ResetAnswer,
)
from delayed_tracker.client.model.credentials import ClientCredentials, TokenFile
from delayed_tracker.client.model.ledger_answers import (
    EntryPage,
    IndexLookupMode,
    MessageId,
    StoredEntry,
    TimeSeek,
    UnreadableEntries,
)
from delayed_tracker.client.model.reports import (
    Bucket,
    BucketState,
    DeliveryHistogram,
    Explanation,
    LedgerMembership,
    MessagePlace,
    PeekedMessages,
    SnapshotReport,
    SnapshotVerdict,
    TrackerStats,
    TrackerSummary,
)
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.model.tls import TlsCredentials
from delayed_tracker.client.queues.add_stream import IndexBatch
from delayed_tracker.client.queues.importing import ImportAnswer, SnapshotToImport
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput

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
    "ClientCredentials",
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
    "LedgerMembership",
    "MarkDeleteAnswer",
    "MessageId",
    "MessagePlace",
    "NackAnswer",
    "NextDelivery",
    "NotConnected",
    "NotFound",
    "Offers",
    "OpenAnswer",
    "Overloaded",
    "PeekedMessages",
    "PermissionDenied",
    "Position",
    "QueryNotSupported",
    "RescheduleAnswer",
    "RescheduleResult",
    "ResetAnswer",
    "ServiceFault",
    "SessionClosed",
    "SnapshotReport",
    "SnapshotToImport",
    "SnapshotVerdict",
    "StoredEntry",
    "ThreadNotStarted",
    "TimeSeek",
    "TlsCredentials",
    "TlsFailed",
    "TokenFile",
    "TrackerCallError",
    "TrackerNotOpen",
    "TrackerSession",
    "TrackerStats",
    "TrackerSummary",
    "TrackerView",
    "Unauthenticated",
    "Unavailable",
    "UnreadableEntries",
    "WrongEventLoop",
    "WrongThread",
]
