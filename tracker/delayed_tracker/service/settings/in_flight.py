"""Settings that bound what calls have in flight: bytes of requests and answers, unread calls, streams."""

from dataclasses import dataclass

from delayed_tracker.service.settings.keys import Group, setting

_TIB = 1024**4


@dataclass(frozen=True, kw_only=True)
class InFlightSettings:
    """Settings of requests, answers, calls and streams in flight."""

    grpc_request_bytes_in_flight_max: int = setting(
        128 * 1024 * 1024,
        "grpcRequestBytesInFlightMax",
        Group.SERVER,
        "Requests that are received and worked on at the same time. A call is read when there is room for a request of "
        "grpcMessageBytesMax; until then its sender keeps it.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=_TIB,
    )
    grpc_answer_bytes_in_flight_max: int = setting(
        128 * 1024 * 1024,
        "grpcAnswerBytesInFlightMax",
        Group.SERVER,
        "Answers above 64 KiB that are made at the same time or that callers have not taken yet.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=_TIB,
    )
    grpc_unread_calls_max: int = setting(
        4_000,
        "grpcUnreadCallsMax",
        Group.SERVER,
        "Calls that wait for room in grpcRequestBytesInFlightMax, up to 64 KiB of each in memory; one more is refused.",
        unit="calls",
        minimum=1,
        maximum=1_000_000,
    )
    grpc_receive_ms_max: int = setting(
        30_000,
        "grpcReceiveMillisMax",
        Group.SERVER,
        "A call that has waited this long for room is refused, and so is one whose request needs longer to arrive.",
        unit="ms",
        minimum=1,
        maximum=3_600_000,
    )
    grpc_streams_max: int = setting(
        2_000,
        "grpcStreamsMax",
        Group.SERVER,
        "Streams that are open at the same time: AddMessagesStream, ImportSnapshots, watches of health and reflection; one "
        "more is refused. Each may send a message of grpcMessageBytesMax after small ones, unannounced.",
        unit="streams",
        minimum=1,
        maximum=1_000_000,
        reloadable=True,
    )
