"""Generated clusters: topics with ledgers, transactions and cursors, as files of a dead bookie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from tests.ledger.harness.disks import cursor_at
from tests.ledger.harness.log_files import (
    cursor_path,
    entry_log,
    ledger_path,
    ledger_records,
    ledger_value,
    message,
    topic_path,
    topic_value,
    write_dump,
)
from tests.ledger.metadata.test_cursor import acked_range, hole

NOW_MS = 1_795_000_000_000
COMMIT, ABORT = 21, 22


@dataclass(frozen=True)
class Entry:
    """A message; with ``ends``, the marker that ends its transaction."""

    delay_ms: int | None
    """Milliseconds from NOW_MS to its deadline; None is not delayed."""
    transaction: int | None = None
    ends: int | None = None

    def encoded(self) -> bytes:
        deadline_ms = None if self.delay_ms is None else NOW_MS + self.delay_ms
        txn = None if self.transaction is None else (7, self.transaction)
        return message(deliver_at_ms=deadline_ms, txn=txn, marker=self.ends)


@dataclass(frozen=True)
class Cursor:
    """Acknowledgements: up to a position, (ledger, first, last) beyond it, and holes in batches."""

    mark_delete: tuple[int, int]
    ranges: Sequence[tuple[int, int, int]] = ()
    holes: Sequence[tuple[int, int]] = ()

    def stored(self) -> bytes:
        return cursor_at(
            *self.mark_delete,
            individual_deleted_messages=[
                acked_range((ledger, first - 1), (ledger, last)) for ledger, first, last in self.ranges
            ],
            batched_entry_deletion_index_info=[hole(ledger, entry, 1) for ledger, entry in self.holes],
        ).SerializeToString()


@dataclass(frozen=True)
class Topic:
    name: str
    ledgers: Mapping[int, Sequence[Entry]]
    cursors: Mapping[str, Cursor] = field(default_factory=dict)


def write_cluster(directory: Path, topics: Sequence[Topic]) -> str:
    """Write the disk of a bookie and a metadata dump; return the URL of the source.

    The entries of the ledgers alternate, as on a real disk.
    """
    metadata: dict[str, bytes] = {}
    records: list[tuple[int, int, bytes]] = []
    for topic in topics:
        metadata[topic_path(topic.name)] = topic_value({ledger: len(of) for ledger, of in topic.ledgers.items()})
        for subscription, cursor in topic.cursors.items():
            metadata[cursor_path(subscription, topic.name)] = cursor.stored()
        for ledger, entries in topic.ledgers.items():
            metadata[ledger_path(ledger)] = ledger_value(last_entry_id=len(entries) - 1)
            stored = ledger_records(ledger, [entry.encoded() for entry in entries])
            records += [(row, ledger, record) for row, record in enumerate(stored)]
    logs = directory / "bookie"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(entry_log(record for _, _, record in sorted(records)))
    dump = write_dump(directory / "metadata.jsonl", metadata)
    return f"bookkeeper+file:{logs}?metadata={dump}"


delays_ms = st.one_of(
    st.none(),
    st.integers(-5_000, 5_000),
    st.integers(1, 30).map(lambda number: number * 60_000),
    st.sampled_from((3_600_000, 7 * 86_400_000)),
)
entries = st.builds(
    Entry,
    delays_ms,
    st.one_of(st.none(), st.none(), st.integers(0, 3)),
)
markers = st.builds(Entry, st.none(), st.integers(0, 3), st.sampled_from((COMMIT, ABORT)))
ledger_entries = st.lists(entries, min_size=1, max_size=40)


@st.composite
def cursors(draw: st.DrawFn, ledgers: Mapping[int, Sequence[Entry]]) -> Cursor:
    """Draw a cursor that has acknowledged some of the entries of some of the ledgers."""
    ledger_ids = sorted(ledgers)
    ledger = draw(st.sampled_from(ledger_ids))
    mark_delete = ledger, draw(st.integers(-1, len(ledgers[ledger]) - 1))
    positions = [(ledger, entry) for ledger in ledger_ids for entry in range(len(ledgers[ledger]))]
    above = [position for position in positions if position > mark_delete]
    if not above:
        return Cursor(mark_delete)
    some = draw(st.lists(st.sampled_from(above), max_size=4, unique=True))
    lengths = [draw(st.integers(0, 5)) for _ in some]
    ranges = [
        (ledger, entry, min(entry + length, len(ledgers[ledger]) - 1))
        for (ledger, entry), length in zip(some, lengths, strict=True)
    ]
    return Cursor(mark_delete, ranges, draw(st.lists(st.sampled_from(above), max_size=2, unique=True)))


@st.composite
def clusters(draw: st.DrawFn) -> list[Topic]:
    """Draw two topics with interleaved ledgers, and three subscriptions."""
    ledger_ids = iter(draw(st.lists(st.integers(1, 10_000), min_size=12, max_size=12, unique=True)))
    topics = []
    for name, subscriptions in (("orders", ("billing", "shipping")), ("events", ("workers",))):
        count = draw(st.integers(1, 6))
        ledgers = {ledger: draw(ledger_entries) for ledger in sorted(next(ledger_ids) for _ in range(count))}
        # A marker comes after the messages of its transaction.
        last = max(ledgers)
        ledgers[last] = [*ledgers[last], *draw(st.lists(markers, max_size=5))]
        topics.append(
            Topic(
                f"persistent://lab/main/{name}",
                ledgers,
                {subscription: draw(cursors(ledgers)) for subscription in subscriptions},
            )
        )
    return topics
