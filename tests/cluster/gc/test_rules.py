"""Tests of the rules by which a tracker without a cursor is garbage."""

import pytest

from delayed_tracker.cli.pulsar.missing_cursors import Look, MissingCursor, Rules, Scope, Sighting, Verdict
from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.client import TrackerSummary
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic_name import TopicName

TOPIC = "persistent://t/ns/orders"
KEY = (TOPIC, "workers")
GRACE_MS = 1_000
NOW_MS = 50_000
OLD = Sighting(NOW_MS - GRACE_MS, 7)


def found(*, has_namespace: bool = True, **fields) -> Look:
    """Return a look that found one tracker, open with epoch 7."""
    given = {"open": True, "recovering": False, "owner": "broker", "epoch": 7, "leased_count": 0, **fields}
    summary = TrackerSummary(*KEY, pending_count=0, bucket_count=0, next_delivery_at_ms=None, **given)
    return Look((MissingCursor(TopicName.parse(TOPIC), summary, has_namespace),), 1, 0)


def judged(look: Look, before: Sighting | None, rules: Rules | None = None):
    (one,) = (rules or Rules(GRACE_MS)).judge(look, {} if before is None else {KEY: before}, NOW_MS)
    return one.verdict, one.sighting


def test_a_cursor_must_be_missing_at_two_looks_a_grace_time_apart():
    """The first look is remembered, and the second one counts when the whole time is over."""
    assert judged(found(), None) == (Verdict.WAITING, Sighting(NOW_MS, 7))
    late = Sighting(OLD.since_ms + 1, 7)
    assert judged(found(), late) == (Verdict.WAITING, late)
    assert judged(found(), OLD) == (Verdict.GARBAGE, OLD)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"epoch": 8}, Verdict.OPENED),
        ({"recovering": True, "epoch": 0}, Verdict.OPENED),
        ({"leased_count": 1}, Verdict.LEASED),
    ],
)
def test_what_is_used_begins_anew(fields, verdict):
    """Another epoch means that it was opened since; leases, that its owner is there."""
    assert judged(found(**fields), OLD) == (verdict, Sighting(NOW_MS, fields.get("epoch", 7)))
    assert judged(found(**fields), OLD, Rules(0))[0] is Verdict.GARBAGE


def test_closing_is_no_use():
    """A tracker on disk has no epoch in a listing; if it was opened since, it has one."""
    assert judged(found(open=False, epoch=0), OLD) == (Verdict.GARBAGE, OLD)
    on_disk = Sighting(OLD.since_ms, 0)
    assert judged(found(open=False, epoch=0), on_disk) == (Verdict.GARBAGE, on_disk)
    assert judged(found(), on_disk)[0] is Verdict.OPENED


def test_a_clock_that_was_set_back_begins_anew():
    """A sighting of the future would be older than any grace time one day."""
    assert judged(found(), Sighting(NOW_MS + 1, 7)) == (Verdict.WAITING, Sighting(NOW_MS, 7))


def test_namespaces_of_others_are_left_unless_they_are_included():
    """The time runs meanwhile; not even the grace time of 0 includes them."""
    foreign = found(has_namespace=False)
    assert judged(foreign, OLD) == (Verdict.NO_NAMESPACE, OLD)
    assert judged(foreign, OLD, Rules(0))[0] is Verdict.NO_NAMESPACE
    assert judged(foreign, OLD, Rules(GRACE_MS, missing_namespaces=True))[0] is Verdict.GARBAGE
    assert judged(foreign, None, Rules(GRACE_MS, missing_namespaces=True))[0] is Verdict.WAITING


def test_a_topic_includes_its_partitions_and_no_other_topic():
    """The service lists by prefix, which is more than what is meant."""
    scope = Scope.parse("t/ns/orders", "")
    assert scope.listed_prefix == TOPIC
    names = (TOPIC, f"{TOPIC}-partition-3", f"{TOPIC}-old")
    assert [scope.includes(each) for each in names] == [True, True, False]
    assert Scope.parse(None, "persistent://t/").includes(f"{TOPIC}-old")
    with pytest.raises(BadUsage, match="not both"):
        Scope.parse(TOPIC, "persistent://t/")
    with pytest.raises(InvalidInput):
        Scope.parse("non-persistent://t/ns/orders", "")
