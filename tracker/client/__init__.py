"""The dispatcher's client: typed, asynchronous, with no dependency on numpy or on the service."""

from tracker.client.answers import (
    AckAnswer,
    AddAnswer,
    AddResult,
    Bucket,
    BucketState,
    DueMessages,
    MarkDeleteAnswer,
    NackAnswer,
    NextDelivery,
    OpenAnswer,
    Position,
    TrackerStats,
)
from tracker.client.calls import ClientSettings
from tracker.client.client import DelayedTrackerClient
from tracker.client.errors import (
    BatchTooLarge,
    CallTimedOut,
    Cleared,
    DataLoss,
    Fenced,
    InvalidArgument,
    Overloaded,
    ServiceFault,
    SessionClosed,
    TrackerCallError,
    TrackerNotOpen,
    Unavailable,
)
from tracker.client.lease import Lease
from tracker.client.session import TrackerSession, TrackerView
from tracker.core.errors import DelayedTrackerError, InvalidInput

__all__ = [
    "AckAnswer",
    "AddAnswer",
    "AddResult",
    "BatchTooLarge",
    "Bucket",
    "BucketState",
    "CallTimedOut",
    "Cleared",
    "ClientSettings",
    "DataLoss",
    "DelayedTrackerClient",
    "DelayedTrackerError",
    "DueMessages",
    "Fenced",
    "InvalidArgument",
    "InvalidInput",
    "Lease",
    "MarkDeleteAnswer",
    "NackAnswer",
    "NextDelivery",
    "OpenAnswer",
    "Overloaded",
    "Position",
    "ServiceFault",
    "SessionClosed",
    "TrackerCallError",
    "TrackerNotOpen",
    "TrackerSession",
    "TrackerStats",
    "TrackerView",
    "Unavailable",
]
