"""Metric families of the servers behind a storage: bookies and ZooKeeper, or an object store. No samples without them."""

from typing import Final

from delayed_tracker.bookkeeper.wire.requests import Operation
from delayed_tracker.service.instruments.family import Family, Kind
from delayed_tracker.storage.capabilities import REQUEST_OUTCOMES

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_OF_BOOKIE: Final[dict[str, tuple[str, ...]]] = {"bookie": ()}
_OF_REQUEST: Final[dict[str, tuple[str, ...]]] = {
    "bookie": (),
    "operation": tuple(operation.name.lower() for operation in Operation),
}
_OF_OBJECTS: Final[dict[str, tuple[str, ...]]] = {
    "backend": (),
    "operation": ("put", "part", "write", "read", "get", "head", "delete", "list"),
}

# -- BookKeeper: the client that storage and add log share -------------------------------------------------------------

BOOKIE_REQUESTS: Final = Family(
    "delayed_tracker_bookie_requests_total",
    _COUNTER,
    "Requests to a bookie, by the status of its reply, or bookie_... if an error stood in its place. 32 bookies have series "
    "of their own; further ones are others together.",
    _OF_REQUEST | {"outcome": ()},
)
BOOKIE_DURATIONS: Final = Family(
    "delayed_tracker_bookie_request_duration_seconds",
    _HISTOGRAM,
    "Time from sending a request to a bookie to its reply; requests without a reply are not in it.",
    _OF_REQUEST,
)
BOOKIE_SENT: Final = Family(
    "delayed_tracker_bookie_sent_bytes_total", _COUNTER, "Bytes of the requests to a bookie.", _OF_REQUEST
)
BOOKIE_RECEIVED: Final = Family(
    "delayed_tracker_bookie_received_bytes_total", _COUNTER, "Bytes of entries that a bookie replied.", _OF_REQUEST
)
BOOKIE_IN_FLIGHT: Final = Family(
    "delayed_tracker_bookie_requests_in_flight", _GAUGE, "Requests that a bookie has not replied to.", _OF_BOOKIE
)
BOOKIE_IN_FLIGHT_BYTES: Final = Family(
    "delayed_tracker_bookie_in_flight_bytes", _GAUGE, "Bytes of requests that a bookie has not replied to.", _OF_BOOKIE
)
BOOKIE_CONNECTIONS: Final = Family(
    "delayed_tracker_bookie_connections_total", _COUNTER, "Attempts to connect to a bookie.", _OF_BOOKIE
)
BOOKIE_REPLACEMENTS: Final = Family(
    "delayed_tracker_bookie_ensemble_changes_total",
    _COUNTER,
    "Times that another bookie took the place of this one in a ledger that was being written, because it had failed.",
    _OF_BOOKIE,
)
ZOOKEEPER_CONNECTED: Final = Family(
    "delayed_tracker_zookeeper_connected", _GAUGE, "Whether ZooKeeper is connected: 1 or 0."
)
ZOOKEEPER_SESSIONS: Final = Family(
    "delayed_tracker_zookeeper_sessions_total",
    _COUNTER,
    "Sessions with ZooKeeper; each but the first began because ZooKeeper had not heard of the service for 10 s.",
)

# -- object stores -------------------------------------------------------------------------------------------------------

OBJECT_REQUESTS: Final = Family(
    "delayed_tracker_object_requests_total",
    _COUNTER,
    "Requests to the object store; a conflict is a refused conditional write.",
    _OF_OBJECTS | {"outcome": REQUEST_OUTCOMES},
)
OBJECT_DURATIONS: Final = Family(
    "delayed_tracker_object_request_duration_seconds",
    _HISTOGRAM,
    "Time of requests to the object store, whatever became of them; a listing and the parts sent at once count as one.",
    _OF_OBJECTS,
)
OBJECT_BYTES: Final = Family(
    "delayed_tracker_object_bytes_total",
    _COUNTER,
    "Bytes of content sent to the object store and received from it, without headers and listings.",
    {"backend": (), "direction": ("sent", "received")},
)
OBJECT_IN_FLIGHT: Final = Family(
    "delayed_tracker_object_requests_in_flight",
    _GAUGE,
    "Requests that the object store has not answered.",
    {"backend": ()},
)
