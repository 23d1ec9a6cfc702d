"""Errors of the service, sorted by the caller's next step. ``status.py`` maps them to gRPC.

A call that raises one of them has applied nothing. ``retry_after_ms`` is set if the caller should retry the same call
later.
"""

from typing import NamedTuple

from delayed_tracker.core.values.errors import DelayedTrackerError, without_middle

SHOWN_NAME_BYTES_MAX = 200


class TrackerKey(NamedTuple):
    """Key of a tracker: one subscription of one topic, both verbatim."""

    topic: str
    subscription: str

    def __str__(self) -> str:
        return f"{shortened(self.subscription)!r} of {shortened(self.topic)!r}"


def shortened(name: str) -> str:
    """Return a name for messages. A long name loses its middle, because a gRPC status has 8 KiB for everything."""
    return without_middle(name, SHOWN_NAME_BYTES_MAX)


class ServiceError(DelayedTrackerError):
    """Base of the service's errors."""

    retry_after_ms: int | None = None


class TrackerNotOpen(ServiceError):
    """The tracker is not open in this service. Open it first, if you should own it.

    Args:
        key: of the tracker.
        stored: True if the storage has the tracker; None if the storage was not read.
    """

    reason = "TRACKER_NOT_OPEN"

    def __init__(self, key: TrackerKey, *, stored: bool | None = None) -> None:
        if stored is None:
            said = f"subscription {key} has no open tracker; open it first"
        elif stored:
            said = (
                f"no dispatcher has the tracker of subscription {key} open: its dispatcher has not connected; wait, or open it"
                " yourself, which fences that dispatcher"
            )
        else:
            said = f"there is no tracker of subscription {key}; `delayed-tracker trackers` lists the existing trackers"
        super().__init__(said)
        self.key = key
        self.stored = stored


class Fenced(ServiceError):
    """The tracker was opened or cleared after the caller opened it. Open it again, if you should own it."""

    reason = "FENCED"

    def __init__(self, key: TrackerKey, *, given_epoch: int, epoch: int, owner: str) -> None:
        owner = shortened(owner)
        opened = f", opened by {owner!r}" if owner else ""
        super().__init__(
            f"epoch {given_epoch} of the tracker of subscription {key} is fenced: it is at epoch {epoch}{opened};"
            " open it again if you should own it",
            metadata={"given_epoch": str(given_epoch), "epoch": str(epoch), "owner": owner},
        )


class TrackerBroken(ServiceError):
    """A bug or a lack of memory interrupted a step, and the tracker was closed. Open it again."""

    reason = "TRACKER_BROKEN"

    def __init__(self, key: TrackerKey) -> None:
        super().__init__(
            f"a step of the tracker of subscription {key} failed halfway, so it was closed; open the tracker again and"
            " replay from the position that OpenTracker returns"
        )


class PollEnded(ServiceError):
    """The tracker was cleared, closed or opened again while the call waited. Nothing was taken."""

    def __init__(self, key: TrackerKey, reason: str) -> None:
        super().__init__(f"the wait on the tracker of subscription {key} ended: {reason.lower()}")
        self.reason = reason


class LedgerSourceNotSet(ServiceError):
    """The service was started without a ledger source."""

    reason = "LEDGER_SOURCE_NOT_SET"

    def __init__(self) -> None:
        super().__init__("the service has no ledgers to read; set ledgerSourceUrl and start it again")


class BrokerMetadataDisabled(ServiceError):
    """A broker with these settings would not index messages, and would refuse a lookup by index."""

    reason = "BROKER_METADATA_DISABLED"

    def __init__(self) -> None:
        super().__init__(
            "brokerEntryMetadataInterceptors is empty, and then Pulsar finds no message by its index; set it as the broker"
            " has it, or messageIdByIndexMode=proposal"
        )


class Retryable(ServiceError):
    """The service cannot do it now. Try again after ``retry_after_ms``."""

    def __init__(self, message: str, *, retry_after_ms: int) -> None:
        super().__init__(f"{message}; try again in {retry_after_ms} ms")
        self.retry_after_ms: int = retry_after_ms


class Recovering(Retryable):
    """The tracker is being recovered."""

    reason = "RECOVERING"


class ShuttingDown(Retryable):
    """The service is stopping."""

    reason = "SHUTTING_DOWN"


class Overloaded(Retryable):
    """A limit of the service, or of one tracker, is reached; nothing was applied."""

    reason = "OVERLOADED"


class LeasesExhausted(Retryable):
    """The tracker has the maximum number of leased positions. Acknowledge some."""

    reason = "LEASES_EXHAUSTED"


class ImportRejected(ServiceError):
    """Snapshots to import are damaged, incomplete or contradict themselves. Make them again."""

    reason = "IMPORT_REJECTED"

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault}; nothing was imported: make the snapshots anew and import them")


class ImportUnderWay(ServiceError):
    """Another import into the tracker is in flight."""

    reason = "IMPORT_UNDER_WAY"

    def __init__(self, key: TrackerKey) -> None:
        super().__init__(f"another import is in flight into the tracker of subscription {key}; nothing was imported")


class TrackerInMemory(ServiceError):
    """The service's trackers are in-memory and have no snapshots."""

    reason = "TRACKER_IN_MEMORY"

    def __init__(self) -> None:
        super().__init__(
            "the service's trackers are in memory and import no snapshots; set delayedDeliveryTrackerFactoryClassName=bucket"
        )


class BatchTooLarge(ServiceError):
    """A call carries more positions than the limit. Split it."""

    reason = "BATCH_TOO_LARGE"

    def __init__(self, field: str, count: int, limit: int) -> None:
        super().__init__(
            f"{field} has {count} positions; give at most {limit} in one call",
            metadata={"field": field, "count": str(count), "limit": str(limit)},
        )


class EntryTooLarge(ServiceError):
    """A single entry is larger than the largest answer. Raise the limit of the service."""

    reason = "BATCH_TOO_LARGE"

    def __init__(self, position: str, size: int, limit: int) -> None:
        super().__init__(
            f"entry {position} has {size} bytes, and an answer holds {limit}; raise grpcMessageBytesMax of the service, or"
            " read on behind it",
            metadata={"field": "payloads", "count": str(size), "limit": str(limit)},
        )


class AnswerTooLarge(ServiceError):
    """The answer would have more rows than the limit. Ask for less."""

    reason = "BATCH_TOO_LARGE"

    def __init__(self, field: str, limit: int) -> None:
        super().__init__(
            f"the answer would have more than {limit} {field}; ask for less in one call",
            metadata={"field": field, "limit": str(limit)},
        )


class QuotaExceeded(Retryable):
    """A quota of the principal is used up; nothing was applied. Try again later, or ask an operator for a larger quota.

    Args:
        principal: its role.
        limit: key of the quota, as in the file of quotas.
        retry_after_ms: time after which there is room, if only the principal's calls fill it.
    """

    reason = "QUOTA_EXCEEDED"

    def __init__(self, principal: str, limit: str, *, retry_after_ms: int) -> None:
        super().__init__(
            f"principal {shortened(principal)!r} has used up its quota {limit}", retry_after_ms=retry_after_ms
        )
        self.metadata = {"principal": shortened(principal), "limit": limit}
        self.limit = limit


class Unauthenticated(ServiceError):
    """The call has no valid credential. Give a token, or connect with a client certificate, and try again.

    Args:
        fault: the fault of the credential, without the credential itself.
        principal: role of a credential that was valid before; empty if the caller is unknown.
    """

    reason = "UNAUTHENTICATED"

    def __init__(self, fault: str, *, principal: str = "") -> None:
        super().__init__(
            f"{fault}; send a valid token as `authorization: Bearer TOKEN`, or connect with a client certificate",
            metadata={"principal": shortened(principal)} if principal else None,
        )


class PermissionDenied(ServiceError):
    """The principal may not take this action on this topic. Ask an operator for a rule that grants it."""

    reason = "PERMISSION_DENIED"

    def __init__(self, principal: str, action: str, *, topic: str = "", subscription: str = "") -> None:
        place = f" on topic {shortened(topic)!r}" if topic else ""
        place += f", subscription {shortened(subscription)!r}" if subscription else ""
        super().__init__(
            f"principal {shortened(principal)!r} may not {action}{place}; ask an operator for a rule that grants it",
            metadata={"principal": shortened(principal), "action": action, "topic": shortened(topic)},
        )
        self.action = action
        self.topic = topic
