"""Property: for the same input the bucket tracker and the in-memory tracker give the same answers.

The bucket tracker's storage answers at once, and its memory holds all that is nearly due, so that only times may
differ.
"""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.engine.effects import LoadSegments
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from tests.core.harness.shell import Shell
from tests.core.harness.unseen import check_unseen
from tests.property.coverage import Coverage
from tests.property.examples import tracker_examples
from tests.property.outcomes import plain
from tests.property.tiny_limits import tiny_limits

pytestmark = pytest.mark.timeout(3_600)  # thousands of examples take their time

REQUIRED_SHARES = {
    "stored": 0.40,
    "loaded": 0.15,
    "late": 0.20,
    "delivered": 0.40,
    "acknowledged": 0.04,
    "cancelled": 0.10,
    "rescheduled": 0.10,
    "refused as due": 0.15,
    "lease expired": 0.12,
    "trimmed": 0.07,
}

SAME_COUNTS = (
    "epoch",
    "pending_count",
    "leased_count",
    "mark_delete",
    "added_count",
    "acked_count",
    "handed_off_count",
    "cancelled_count",
    "trimmed_count",
    "cleared_count",
    "refused_as_due_count",
    "due_on_offer_count",
    "duplicate_count",
    "rescheduled_count",
    "lease_expired_count",
    "replay_required",
)

ledgers = st.integers(0, 5)
entries = st.integers(0, 6)
places = st.lists(st.builds(Position, ledgers, entries), max_size=5)
rows = st.lists(st.tuples(st.integers(-3, 90), ledgers, entries), min_size=1, max_size=9)
lease_numbers = st.integers(0, 5)

steps = st.one_of(
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("add"), rows),
    st.tuples(st.just("pop"), st.integers(1, 6), st.sampled_from([0, 5, 20])),
    st.tuples(st.just("pop_at_next_delivery"), st.integers(1, 6), st.sampled_from([5, 20])),
    st.tuples(st.just("pop_at_next_delivery"), st.integers(1, 6), st.sampled_from([5, 20])),
    st.tuples(st.just("ack"), lease_numbers, places),
    st.tuples(st.just("nack"), lease_numbers, places, st.one_of(st.none(), st.integers(-5, 30))),
    st.tuples(st.just("extend"), lease_numbers, st.one_of(st.none(), places), st.integers(1, 30)),
    st.tuples(st.just("cancel"), places, st.integers(0, 3)),
    st.tuples(st.just("reschedule"), rows, st.integers(0, 3), st.integers(-2, 90)),
    st.tuples(st.just("send_now"), st.integers(1, 3)),
    st.tuples(st.just("contains"), places),
    st.tuples(st.just("filter_range"), ledgers, entries, entries),
    st.tuples(st.just("pass_time"), st.integers(0, 25)),
    st.tuples(st.just("pass_time"), st.integers(5, 25)),
    st.tuples(st.just("pass_time"), st.integers(20, 25)),
    st.tuples(st.just("advance_mark_delete"), st.builds(Position, ledgers, st.integers(-1, 6))),
    st.tuples(st.just("reset_cursor"), st.builds(Position, ledgers, st.integers(-1, 6))),
    st.tuples(st.just("clear")),
    st.tuples(st.just("new_owner")),
)

bucket_limits = tiny_limits(max_delay_ms=st.sampled_from([0, 0, 60]))


class BothKinds:
    """One script played on both trackers; every pair of answers is compared."""

    def __init__(self, limits: TrackerLimits) -> None:
        self.bucket = Shell.with_limits(limits)
        self.memory = Shell.with_limits(replace(limits, kind=TrackerKind.IN_MEMORY))
        self.last_lease_id = 0
        self.leased: list[Position] = []
        self.hits: Counter[str] = Counter()

    @property
    def now_ms(self) -> int:
        return self.memory.now_ms

    @property
    def now(self) -> Instant:
        return self.memory.now

    def same(self, verb: str, *arguments, **options):
        answers = []
        for shell in (self.bucket, self.memory):
            answers.append(plain(getattr(shell.core, verb)(*arguments, **options)))
            self.perform(shell)
        assert answers[0] == answers[1], verb
        self.compare()
        return answers[1]

    def perform(self, shell: Shell) -> None:
        self.hits["loaded"] += len(shell.asked(LoadSegments))
        shell.perform_all()
        check_unseen(shell.core)

    def compare(self) -> None:
        bucket, memory = self.bucket.core, self.memory.core
        counts, expected = bucket.stats(), memory.stats()
        assert {name: getattr(counts, name) for name in SAME_COUNTS} == {
            name: getattr(expected, name) for name in SAME_COUNTS
        }
        next_ms, expected_ms = bucket.next_delivery_ms(), memory.next_delivery_ms()
        # A segment that is not loaded counts from its first row, even if that one was acknowledged or leased since.
        assert expected_ms is None or (next_ms is not None and next_ms <= expected_ms)
        assert not self.memory.snapshots
        self.hits["stored"] += bool(self.bucket.snapshots)
        self.hits["late"] += bool(counts.late_count)

    def add(self, offered: list[tuple[int, int, int]]) -> None:
        rows = [(self.now_ms + delay_ms, ledger, entry) for delay_ms, ledger, entry in offered]
        self.same("add", IndexColumns.of(rows), self.now)

    def pop(self, count: int, lease_ms: int) -> None:
        self.same("wake", self.now)
        delivery = self.same("pop_due", count, self.now, lease_ms=lease_ms)
        if delivery["lease_id"]:
            self.last_lease_id = delivery["lease_id"]
            self.leased = [Position(ledger, entry) for _, ledger, entry in delivery["indexes"]]

    def pop_at_next_delivery(self, count: int, lease_ms: int) -> None:
        next_ms = self.memory.core.next_delivery_ms()
        if next_ms is not None:
            self.pass_time(max(0, next_ms - self.now_ms))
            self.pop(count, lease_ms)

    def _named(self, number: int, places: list[Position]) -> tuple[int, PositionColumns]:
        """Return the last lease with some of its own positions, or an older one."""
        lease_id = self.last_lease_id if number else max(1, self.last_lease_id - 1)
        return lease_id, PositionColumns.of(dict.fromkeys([*places, *self.leased[:number]]))

    def ack(self, number: int, places: list[Position]) -> None:
        if self.last_lease_id:
            self.same("ack", *self._named(number, places), self.now)

    def nack(self, number: int, places: list[Position], delay_ms: int | None) -> None:
        if self.last_lease_id:
            deliver_at_ms = None if delay_ms is None else self.now_ms + delay_ms
            self.same("nack", *self._named(number, places), self.now, deliver_at_ms=deliver_at_ms)

    def extend(self, number: int, places: list[Position] | None, lease_ms: int) -> None:
        if self.last_lease_id:
            lease_id, named = self._named(number, places or [])
            self.same("extend", lease_id, None if places is None else named, self.now, lease_ms=lease_ms)

    def _some_tracked(self, count: int) -> list[Position]:
        buckets = self.memory.core._state.members.buckets.values()
        return sorted(position for bucket in buckets for position in bucket.bits.to_columns())[:count]

    def cancel(self, places: list[Position], tracked_count: int) -> None:
        places = list(dict.fromkeys([*places, *self._some_tracked(tracked_count)]))
        self.same("cancel", PositionColumns.of(places), self.now)

    def reschedule(self, offered: list[tuple[int, int, int]], tracked_count: int, delay_ms: int) -> None:
        rows = [(self.now_ms + delay_ms, *position) for position in self._some_tracked(tracked_count)]
        rows += [(self.now_ms + delay_ms, ledger, entry) for delay_ms, ledger, entry in offered]
        self.same("reschedule", IndexColumns.of(rows), self.now)

    def send_now(self, count: int) -> None:
        """Offer tracked positions as due, as a late replay does."""
        self.add([(-self.now_ms, *position) for position in self._some_tracked(count)])

    def contains(self, places: list[Position]) -> None:
        self.same("contains", PositionColumns.of(places))

    def filter_range(self, ledger: int, first: int, last: int) -> None:
        self.same("filter_range", ledger, min(first, last), max(first, last))

    def pass_time(self, delta_ms: int) -> None:
        for shell in (self.bucket, self.memory):
            shell.now_ms += delta_ms
        self.same("wake", self.now)

    def advance_mark_delete(self, position: Position) -> None:
        self.same("advance_mark_delete", position, self.now)

    def reset_cursor(self, position: Position) -> None:
        self.same("reset_cursor", position, self.now)

    def clear(self) -> None:
        self.same("clear", self.now)

    def new_owner(self) -> None:
        self.same("begin_epoch", self.memory.core.epoch + 1, self.now)

    def finish(self) -> None:
        stats = self.memory.core.stats()
        self.hits["delivered"] += self.last_lease_id + stats.handed_off_count
        self.hits["acknowledged"] += stats.acked_count
        self.hits["cancelled"] += stats.cancelled_count
        self.hits["rescheduled"] += stats.rescheduled_count
        self.hits["refused as due"] += stats.refused_as_due_count
        self.hits["lease expired"] += stats.lease_expired_count
        self.hits["trimmed"] += stats.trimmed_count
        for _ in range(200):
            if not len(self.memory.core):
                return
            wakeup_ms = self.memory.next_wakeup_ms()
            assert wakeup_ms is not None
            self.pass_time(max(0, wakeup_ms - self.now_ms))
            self.pop(100, 0)
        raise AssertionError("something never comes out")


def test_both_trackers_give_the_same_answers() -> None:
    """The results of every verb, the tracked positions and every count are equal."""
    coverage = Coverage(REQUIRED_SHARES)

    @tracker_examples()
    @given(limits=bucket_limits, script=st.lists(steps, min_size=15, max_size=40))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        both = BothKinds(limits)
        for verb, *arguments in script:
            getattr(both, str(verb))(*arguments)
        both.finish()
        coverage.note(both.hits)

    play()
    coverage.require()
