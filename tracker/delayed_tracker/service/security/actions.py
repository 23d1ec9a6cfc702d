"""Actions that rules grant, and the action that each call and each route needs.

``docs/reference/actions.md`` is rendered from these tables. A call or route that is missing here cannot be served.
"""

import enum
from collections.abc import Mapping
from typing import Final


class Action(enum.Enum):
    """Action of a principal on a topic or on one subscription of it."""

    DISPATCH = "dispatch"
    """Own trackers and hand out their messages; contains ``read``."""
    READ = "read"
    """See trackers, and positions of messages in ledgers."""
    PAYLOAD = "payload"
    """Read contents of messages; contains ``read``."""
    METRICS = "metrics"
    """Read all metrics of the service, with the names of all topics."""
    ADMIN = "admin"
    """Replace or delete a tracker that another principal owns."""


class Access(enum.Enum):
    """Access to what belongs to no topic."""

    ANYBODY = "anybody"
    """No credential is needed."""
    AUTHENTICATED = "any principal"
    """Any valid credential is enough."""


CONTAINED: Final[Mapping[Action, frozenset[Action]]] = {
    Action.DISPATCH: frozenset({Action.DISPATCH, Action.READ}),
    Action.PAYLOAD: frozenset({Action.PAYLOAD, Action.READ}),
    Action.READ: frozenset({Action.READ}),
    Action.METRICS: frozenset({Action.METRICS}),
    Action.ADMIN: frozenset({Action.ADMIN}),
}
"""Actions that a rule grants with each action that it names."""

_TRACKERS: Final = "delayed_tracker.v1.DelayedDeliveryTrackerService"
_LEDGERS: Final = "delayed_tracker.v1.LedgerService"

CALL_ACTIONS: Final[Mapping[str, Action | Access]] = {
    **{
        f"{_TRACKERS}/{call}": Action.DISPATCH
        for call in (
            "OpenTracker",
            "CloseTracker",
            "AddMessages",
            "AddMessagesStream",
            "PollScheduledMessages",
            "AckMessages",
            "NackMessages",
            "ExtendLease",
            "CancelMessages",
            "RescheduleMessages",
            "AdvanceMarkDelete",
            "ResetCursor",
            "ClearMessages",
            "SealBucket",
            "DeleteTracker",
        )
    },
    **{
        f"{_TRACKERS}/{call}": Action.READ
        for call in (
            "ContainsMessages",
            "NextDeliveryTime",
            "FilterEntries",
            "StreamMembership",
            "GetTrackerStats",
            "ListBuckets",
            "ListTrackers",
            "PeekMessages",
            "ExplainMessage",
            "DeliveryHistogram",
            "VerifySnapshots",
        )
    },
    f"{_TRACKERS}/ImportSnapshots": Action.ADMIN,
    f"{_LEDGERS}/GetMessageIdByIndex": Action.READ,
    f"{_LEDGERS}/SeekByTime": Action.READ,
    f"{_LEDGERS}/GetLastMessagePosition": Action.READ,
    f"{_LEDGERS}/ReadEntries": Action.PAYLOAD,
    "grpc.health.v1.Health/Check": Access.ANYBODY,
    "grpc.health.v1.Health/List": Access.ANYBODY,
    "grpc.health.v1.Health/Watch": Access.ANYBODY,
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Access.AUTHENTICATED,
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo": Access.AUTHENTICATED,
}
"""Action that each call needs, by its full name. DeleteTracker without an epoch needs ``admin`` instead."""

LISTING_CALLS: Final = frozenset({f"{_TRACKERS}/ListTrackers"})
"""Calls that any principal may make, and whose answers have only rows for which it may take the call's action."""

DESTRUCTIVE_CALLS: Final = frozenset({"ClearMessages", "DeleteTracker", "ImportSnapshots", "ResetCursor"})
"""Calls that drop what a tracker has. Each has a line in the audit log."""

ROUTE_ACTIONS: Final[Mapping[str, Action | Access]] = {
    "/health/live": Access.ANYBODY,
    "/health/ready": Access.ANYBODY,
    "/metrics": Action.METRICS,
    "/admin/v2/persistent/{tenant}/{namespace}/{local_name:path}/getMessageIdByIndex": Action.READ,
    "/admin/v2/non-persistent/{tenant}/{namespace}/{local_name:path}/getMessageIdByIndex": Access.AUTHENTICATED,
}
"""Action that each route of HTTP needs, by its path. Any other path is answered to principals alone, with 404."""
