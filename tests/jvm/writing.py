"""Writes entries to a local managed ledger, as a broker with Pulsar's settings does."""

from collections.abc import Sequence
from pathlib import Path

from delayed_tracker.ledger.entry.frame import parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from tests.ledger.local.disks import TOPIC, QuickDisk

TIME = "org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor"
INDEX = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
BOTH = (TIME, INDEX)


def write(
    directory: Path,
    payloads: Sequence[bytes],
    *,
    now_ms: int,
    interceptors: Sequence[str],
    topic: str = TOPIC,
    num_messages: Sequence[int] | None = None,
) -> None:
    """Append payloads with a new writer, into several ledgers if they are many.

    ``num_messages`` is the count in the SEND commands; None for the true count.
    """
    with open_writer(
        directory,
        topic,
        now_ms=now_ms,
        interceptors=load_interceptors(interceptors),
        limits=RolloverLimits(entries_max=50),
        disk=QuickDisk(),
    ) as writer:
        writer.append_many(payloads, now_ms=now_ms, num_messages=num_messages or [*map(message_count, payloads)])


def message_count(payload: bytes) -> int:
    """Return the number of messages of an entry without broker metadata."""
    return parse_message_metadata(payload, split_frame(payload)).num_messages_in_batch
