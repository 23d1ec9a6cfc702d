"""Facts that a job finds before Spark reads anything: topics and their subscriptions."""

from pathlib import Path

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.spark.plan.scope import read_scope
from delayed_tracker.spark.settings import RebuildSettings
from tests.ledger.harness.log_files import (
    cursor_path,
    entry_log,
    ledger_path,
    ledger_value,
    topic_path,
    topic_value,
    write_dump,
)
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

ORDERS, EVENTS = "persistent://lab/main/orders", "persistent://lab/main/events"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Return the URL of two topics with one common subscription and one of their own each."""
    both = {"billing": Cursor((1, -1))}
    topics = [
        Topic(ORDERS, {1: [Entry(1)]}, both | {"shipping": Cursor((1, 0))}),
        Topic(EVENTS, {2: [Entry(1)]}, {"billing": Cursor((2, -1)), "workers": Cursor((2, 0))}),
    ]
    return write_cluster(tmp_path, topics)


def subscribers(source: str, *named: str, **options: str) -> set[tuple[str, str]]:
    settings = RebuildSettings({"url": source, **options}, now_ms=NOW_MS, subscriptions=named)
    return {one.key for one in read_scope(settings).subscribers.all}


def test_a_named_subscription_is_taken_of_the_topics_that_have_it(source):
    """A named subscription is taken from each topic that has it; other topics need not have it."""
    assert subscribers(source, "shipping") == {(ORDERS, "shipping")}
    assert subscribers(source, "shipping", "billing") == {
        (ORDERS, "shipping"),
        (ORDERS, "billing"),
        (EVENTS, "billing"),
    }


def test_a_subscription_that_no_topic_has_is_an_error(source):
    """A subscription that no topic has is an error, also next to existing ones; one topic lists those it has."""
    for named in (("nobody",), ("nobody", "billing", "nobody")):
        with pytest.raises(
            SubscriptionNotFound, match=r"^none of 2 topics has subscription 'nobody'; \S+ has no .* it has"
        ):
            subscribers(source, *named)
    with pytest.raises(
        SubscriptionNotFound, match=rf"^{ORDERS} has no subscription 'workers'; it has billing, shipping"
    ):
        subscribers(source, "workers", topic=ORDERS)


def test_a_source_without_topics_is_named(tmp_path, source):
    """A pattern that matches no topic is an error of the pattern, but only if there are topics."""
    with pytest.raises(InvalidInput, match=r"topicsPattern: 'x.*' is not valid; no topic fits"):
        subscribers(source, topicsPattern="x.*")
    (tmp_path / "bookie" / "0.log").write_bytes(entry_log([]))
    empty = f"bookkeeper+file:{tmp_path / 'bookie'}?metadata={write_dump(tmp_path / 'empty.jsonl', {})}"
    for options in ({}, {"topicsPattern": "x.*"}):
        with pytest.raises(TopicNotFound) as raised:
            subscribers(empty, **options)
        assert raised.value.message.startswith(f"--source: {empty!r} has no topics; give ")


def test_the_end_that_a_topic_recorded_needs_no_log(tmp_path):
    """No log is opened for a ledger whose end the topic recorded, even if the ledger's own metadata are from before it."""
    metadata = {
        topic_path(ORDERS): topic_value({1: 10}),
        ledger_path(1): ledger_value(last_entry_id=None),
        cursor_path("billing", ORDERS): Cursor((1, -1)).stored(),
    }
    (tmp_path / "bookie").mkdir()
    (tmp_path / "bookie" / "0.log").write_bytes(b"not an entry log")
    url = f"bookkeeper+file:{tmp_path / 'bookie'}?metadata={write_dump(tmp_path / 'dump.jsonl', metadata)}"

    assert read_scope(RebuildSettings({"url": url}, now_ms=NOW_MS)).entry_counts == {1: 10}
