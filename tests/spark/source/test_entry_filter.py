"""Conditions that the data source applies itself give the same rows as if Spark applied them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark import schema
from tests.ledger.harness.log_files import (
    entry_log,
    ledger_path,
    ledger_records,
    ledger_value,
    message,
    topic_path,
    topic_value,
    write_dump,
)
from tests.spark.harness.reading import Row, bad_rows, positions, read_rows

PUBLISHED_MS = 1_700_000_000_000
PAYLOADS = [
    message(),
    message(deliver_at_ms=-5),
    message(deliver_at_ms=70),
    message(deliver_at_ms=90, marker=21, txn=(1, 2)),
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of ledgers 3 and 4 of these messages; the first entry of ledger 4 is missing."""
    records = [*ledger_records(3, PAYLOADS), *ledger_records(4, PAYLOADS)[1:]]
    (tmp_path / "0.log").write_bytes(entry_log(records))
    count = len(PAYLOADS)
    values = {ledger_path(ledger_id): ledger_value(last_entry_id=count - 1) for ledger_id in (3, 4)}
    dump = write_dump(tmp_path / "dump.jsonl", values | {topic_path(): topic_value({3: count, 4: count})})
    return f"bookkeeper+file:{tmp_path}?metadata={dump}"


def fits(column: str, test: Callable[[int], bool]) -> Callable[[Row], bool]:
    return lambda row: row[column] is not None and test(row[column])


PUSHED: dict[str, tuple[Filter, Callable[[Row], bool]]] = {
    "equal": (EqualTo(("ledger_id",), 4), fits("ledger_id", lambda value: value == 4)),
    "greater": (GreaterThan(("deliver_at_ms",), -5), fits("deliver_at_ms", lambda value: value > -5)),
    "at least": (GreaterThanOrEqual(("deliver_at_ms",), 70), fits("deliver_at_ms", lambda value: value >= 70)),
    "less": (LessThan(("ledger_id",), 4), fits("ledger_id", lambda value: value < 4)),
    "at most": (LessThanOrEqual(("deliver_at_ms",), 70), fits("deliver_at_ms", lambda value: value <= 70)),
    "present": (IsNotNull(("deliver_at_ms",)), fits("deliver_at_ms", lambda _: True)),
    "published": (LessThan(("publish_time",), PUBLISHED_MS), fits("publish_time", lambda value: value < PUBLISHED_MS)),
    "published then": (EqualTo(("publish_time",), PUBLISHED_MS), fits("publish_time", lambda _: True)),
}


@pytest.mark.parametrize("name", PUSHED)
def test_a_condition_that_is_taken_is_applied(url: str, name: str):
    """The read returns matching rows, bad ones included, and leaves nothing to Spark."""
    condition, wanted = PUSHED[name]
    every, _ = read_rows(url=url, onError="skip")
    assert len(every) == 8
    found, left = read_rows(condition, url=url, onError="skip")
    assert left == []
    assert positions(found) == positions([row for row in every if wanted(row)])
    assert bad_rows(found) == [row for row in bad_rows(every) if wanted(row)]


def test_conditions_are_joined(url: str):
    """All conditions of a query must hold."""
    found, _ = read_rows(
        EqualTo(("ledger_id",), 3), GreaterThan(("deliver_at_ms",), -9), LessThan(("deliver_at_ms",), 70), url=url
    )
    assert positions(found) == [(3, 1)]


@pytest.mark.parametrize(
    "condition",
    [
        IsNull(("deliver_at_ms",)),
        In(("ledger_id",), (3,)),
        Not(EqualTo(("ledger_id",), 3)),
        EqualTo(("entry_id",), 1),
        EqualTo(("deliver_at_ms",), 1.5),
    ],
)
def test_other_conditions_are_left_to_spark(url: str, condition: Filter):
    """Conditions that the source does not support change no row."""
    found, left = read_rows(condition, url=url, onError="skip")
    assert left == [condition]
    assert len(found) == 8


def test_ledgers_that_do_not_fit_are_not_looked_for(url: str):
    """A bad entry of an excluded ledger does not fail the read."""
    found, _ = read_rows(EqualTo(("ledger_id",), 3), url=url)
    assert len(found) == 4


def test_what_a_rebuild_needs_can_be_chosen(url: str):
    """A read can be limited to delayed messages and ends of transactions; bad entries are always included."""
    found, _ = read_rows(url=url, entries="delayed", onError="skip")
    assert positions(found) == [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)]
    assert len(bad_rows(found)) == 1


def test_columns_can_be_chosen(url: str):
    """Only the selected columns are built, in the order of the selection."""
    wanted = StructType([schema.ENTRY_SCHEMA[name] for name in ("deliver_at_ms", "entry_id")])
    found, _ = read_rows(EqualTo(("ledger_id",), 3), wanted=wanted, url=url)
    assert [dict(row) for row in found] == [
        {"deliver_at_ms": at, "entry_id": entry} for entry, at in enumerate([None, -5, 70, 90])
    ]


@pytest.mark.parametrize("field", [StructField("nonsense", LongType()), StructField("entry_id", StringType())])
def test_columns_that_there_are_not_are_refused(url: str, field: StructField):
    """A column that does not exist is refused, and the message lists those that do."""
    with pytest.raises(InvalidInput, match="columns are topic string, ledger_id bigint"):
        read_rows(wanted=StructType([field]), url=url)
