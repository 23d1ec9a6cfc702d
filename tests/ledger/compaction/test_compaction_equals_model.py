"""Property test: a compacted topic equals the content of a dictionary."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.topic.topic_log import TopicLog
from tests.ledger.compaction.compacting import compacted, messages
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import batch, chunks, marker, single, slot

keys = st.none() | st.sampled_from("abcd")
values = st.binary(max_size=3)
key_values = st.tuples(keys, values)


@dataclass(frozen=True)
class Publish:
    """One entry, or the chunks of one message."""

    kind: str
    rows: tuple[tuple[str | None, bytes], ...]
    codec: Codec
    aborted: bool


publishes = st.builds(
    Publish,
    kind=st.sampled_from(["single", "batch", "pieces"]),
    rows=st.lists(key_values, min_size=1, max_size=4).map(tuple),
    codec=st.sampled_from(Codec),
    aborted=st.booleans(),
)


def entries_of(publish: Publish, number: int) -> list[bytes]:
    txn = {"txnid_most_bits": 1, "txnid_least_bits": number} if publish.aborted else {}
    slots = [
        slot(index, value) if key is None else slot(index, value, partition_key=key)
        for index, (key, value) in enumerate(publish.rows)
    ]
    (key, value), *_ = publish.rows
    fields = txn if key is None else txn | {"partition_key": key}
    match publish.kind:
        case "batch":
            entries = [batch(slots, codec=publish.codec, **txn)]
        case "pieces" if value and len(value) > 1:
            entries = chunks(value, 1, uuid=str(number), **fields)
        case _:
            entries = [single(value, codec=publish.codec, **fields)]
    return [*entries, marker(22, (1, number))] if publish.aborted else entries


def model(history: list[Publish], *, retain_null_key: bool) -> list[tuple[str | None, bytes]]:
    """Return the content of a dictionary and a list: keys in the order of their latest messages."""
    latest: dict[object, tuple[str | None, bytes]] = {}
    for number, publish in enumerate(history):
        if publish.aborted:
            continue
        for index, (key, value) in enumerate(publish.rows if publish.kind == "batch" else publish.rows[:1]):
            if key is None:
                if retain_null_key:
                    latest[number, index] = (key, value)
                continue
            latest.pop(key, None)
            if value:
                latest[key] = (key, value)
    return list(latest.values())


def topic(history: list[Publish], ledger_entries: int) -> tuple[TopicLog, list[int]]:
    """Return the history in ledgers of a few entries each, and the number of entries after each step."""
    entries: list[bytes] = []
    counts = []
    for number, publish in enumerate(history):
        entries += entries_of(publish, number)
        counts.append(len(entries))
    starts = range(0, len(entries), ledger_entries)
    return topic_of({at // ledger_entries: entries[at : at + ledger_entries] for at in starts}), counts


@given(
    history=st.lists(publishes, min_size=1, max_size=12),
    ledger_entries=st.integers(1, 5),
    retain_null_key=st.booleans(),
    cuts=st.lists(st.integers(0, 11), max_size=3),
)
def test_a_compacted_topic_is_a_dictionary(history, ledger_entries, retain_null_key, cuts):
    """Compaction at once equals compaction in steps, each on top of the last, when read across the horizon."""
    log, counts = topic(history, ledger_entries)
    previous = None
    for cut in sorted({min(cut, len(history) - 1) for cut in cuts} | {len(history) - 1}):
        last = counts[cut] - 1
        through = Position(last // ledger_entries, last % ledger_entries)
        if all(publish.aborted for publish in history[: cut + 1]):
            continue
        previous = compacted(log, previous=previous, through=through, retain_null_key=retain_null_key)

        wanted = model(history[: cut + 1], retain_null_key=retain_null_key)
        rest = [
            row
            for publish in history[cut + 1 :]
            if not publish.aborted
            for row in (publish.rows if publish.kind == "batch" else publish.rows[:1])
        ]
        assert [(message.key, message.payload) for message in messages(log, previous)] == wanted + rest
