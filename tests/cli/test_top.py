"""Tests of the view of ``top``: rates, order, totals, and the fit to a terminal."""

from dataclasses import replace

import pytest
from rich.console import Console

from delayed_tracker.cli.top.drawing import drawn, live_table, per_second
from delayed_tracker.cli.top.rows import EMPTY_SAMPLE, Key, Rates, ServiceSample, Sort, chosen, rates_between, view_of
from delayed_tracker.client import TrackerStats, TrackerSummary
from delayed_tracker.client.model.convert import tracker_stats
from delayed_tracker.v1 import tracker_pb2 as pb

NOW_MS = 1_795_245_852_556


def stats(**counts: int) -> TrackerStats:
    return tracker_stats(pb.GetTrackerStatsResponse(**{"server_time_ms": NOW_MS, **counts}))


def listed(
    topic: str, *, pending: int = 0, leased: int = 0, buckets: int = 0, next_ms: int | None = None, is_open: bool = True
) -> TrackerSummary:
    return TrackerSummary(
        topic=topic,
        subscription="s",
        open=is_open,
        recovering=False,
        owner="",
        epoch=1,
        pending_count=pending,
        leased_count=leased,
        bucket_count=buckets,
        next_delivery_at_ms=next_ms,
    )


def topics(keys: list[Key]) -> list[str]:
    return [key.topic for key in keys]


def test_rates_are_by_the_services_clock():
    """Each rate is the difference of a counter divided by the service's time between the looks."""
    before = stats(added_count=10, handed_out_count=4, acked_count=3, lease_expired_count=1)
    now = stats(server_time_ms=NOW_MS + 500, added_count=60, handed_out_count=14, acked_count=8, lease_expired_count=2)
    assert rates_between(now, before) == Rates(added=100.0, handed_out=20.0, acked=10.0, lease_expired=2.0)


@pytest.mark.parametrize(
    "now",
    [
        {"server_time_ms": NOW_MS + 500, "added_count": 3},
        {"server_time_ms": NOW_MS + 500, "added_count": 50, "acked_count": 0},
        {"server_time_ms": NOW_MS + 500, "added_count": 50, "acked_count": 9, "recovered_count": 7},
        {"server_time_ms": NOW_MS, "added_count": 50, "acked_count": 9},
        {"server_time_ms": NOW_MS - 500, "added_count": 50, "acked_count": 9},
    ],
)
def test_there_is_no_rate_across_a_restart_or_without_time_between(now):
    """A restart, or no time between the looks, gives no rate instead of a negative or infinite one."""
    assert rates_between(stats(**now), stats(added_count=10, acked_count=5)) is None


def test_there_is_no_rate_at_the_first_look():
    """The first look has no rates."""
    assert rates_between(stats(added_count=10), None) is None


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        (Sort.PENDING, ["many", "held", "late"]),
        (Sort.LEASED, ["held", "many", "late"]),
        (Sort.OVERDUE, ["late", "many", "held"]),
        (Sort.BUCKETS, ["late", "many", "held"]),
        (Sort.RATE, ["many", "held", "late"]),
    ],
)
def test_the_busiest_have_rows(sort, first):
    """Rows are ordered by the option, then by pending, and trackers that are only on disk have none."""
    found = [
        listed("late", pending=1, buckets=7, next_ms=NOW_MS - 5),
        listed("closed", pending=999, leased=999, buckets=999, next_ms=0, is_open=False),
        listed("many", pending=90, next_ms=NOW_MS),
        listed("held", pending=2, leased=9),
    ]
    assert topics(chosen(found, 10, sort)) == first
    assert topics(chosen(found, 2, sort)) == first[:2]


def test_a_rate_is_looked_for_where_numbers_changed():
    """Trackers are selected by changed numbers, by a changed next delivery, and by an earlier rate."""
    before = [listed("steady", next_ms=5), listed("filling", pending=10), listed("idle", pending=99), listed("hot")]
    now = [replace(before[0], next_delivery_at_ms=6), replace(before[1], pending_count=30), before[2], before[3]]
    hot = stats(added_count=1_000)
    seen = view_of(
        ServiceSample(before, {Key("hot", "s"): replace(hot, server_time_ms=NOW_MS + 1_000)}),
        ServiceSample(before, {Key("hot", "s"): replace(hot, added_count=0)}),
        Sort.RATE,
    )
    keys = chosen(now, 10, Sort.RATE, before=ServiceSample(before, {}), seen=seen.trackers)
    assert topics(keys) == ["hot", "filling", "steady", "idle"]


def test_a_view_has_rows_in_order_and_totals_of_all():
    """Totals are those of the listing, and rates those of the rows."""
    found = [
        listed("a", pending=5, leased=1, next_ms=NOW_MS - 2_000),
        listed("b", pending=7, next_ms=NOW_MS + 1),
        listed("c", pending=2, next_ms=NOW_MS - 100),
        listed("d", is_open=False),
    ]
    answered = {
        Key("a", "s"): stats(pending_count=5, leased_count=1, next_delivery_at_ms=NOW_MS - 2_000, added_count=30),
        Key("b", "s"): stats(pending_count=7, next_delivery_at_ms=NOW_MS + 1),
    }
    before = {Key("a", "s"): stats(server_time_ms=NOW_MS - 3_000)}
    view = view_of(ServiceSample(found, answered), ServiceSample(found, before), Sort.PENDING)
    assert [(row.topic, row.overdue_ms) for row in view.trackers] == [("b", None), ("a", 2_000)]
    assert [row.rates and row.rates.added for row in view.trackers] == [None, 10.0]
    totals = view.totals
    assert (totals.tracker_count, totals.open_count, totals.pending_count, totals.leased_count) == (4, 3, 14, 1)
    assert (totals.overdue_count, totals.overdue_ms) == (2, 2_000)
    assert totals.rates == Rates(10.0, 0.0, 0.0, 0.0)
    by_rate = view_of(ServiceSample(found, answered), ServiceSample(found, before), Sort.RATE)
    assert [row.topic for row in by_rate.trackers] == ["a", "b"]


@pytest.mark.parametrize("width", [200, 120, 80, 40, 5])
def test_a_row_is_a_line_however_narrow_the_terminal(width):
    """Columns that do not fit are dropped, subscription and pending last; a topic is cut at its beginning."""
    topic = "persistent://tenant/namespace/" + "x" * 30 + "-end"
    look = ServiceSample(
        [listed(topic, pending=123)], {Key(topic, "s"): stats(pending_count=123, snapshot_bytes=5_000_000)}
    )
    view = view_of(look, EMPTY_SAMPLE, Sort.PENDING)
    console = Console(width=width, height=20, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(live_table(view, width))
    lines = captured.get().splitlines()
    assert len(lines) == 2
    assert ("next delivery" in lines[0]) == (width == 200)
    if width >= 40:
        assert "123" in lines[1]
        assert "-end" in lines[1]
    with console.capture() as captured:
        console.print(drawn(view, width=width, sort=Sort.PENDING, trouble="gone away " * 30))
    assert len(captured.get().splitlines()) == 5


@pytest.mark.parametrize(("rate", "shown"), [(None, "-"), (0.0, "0.0"), (99.94, "99.9"), (12_345.6, "12346")])
def test_rates_have_as_many_digits_as_say_something(rate, shown):
    """A rate has only significant digits, and an unknown rate is not 0."""
    assert per_second(rate) == shown
