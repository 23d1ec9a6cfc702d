"""Property: cutting a batch never changes the result, neither the answers nor the buckets."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.engine.effects import DeleteSnapshots, StoreSnapshot
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.core.values.verb_results import BucketView
from tests.core.harness.shell import Shell
from tests.core.harness.unseen import check_unseen
from tests.property.coverage import Coverage
from tests.property.examples import tracker_examples
from tests.property.outcomes import plain
from tests.property.tiny_limits import tiny_limits

pytestmark = pytest.mark.timeout(3_600)  # thousands of examples take their time

REQUIRED_SHARES = {
    TrackerKind.BUCKET: {
        "seal": 0.80,
        "equal snapshots": 0.50,
        "late bucket": 0.10,
        "refused": 0.60,
        "refused and sealed in one batch": 0.15,
        "refused and drained in one batch": 0.05,
    },
    TrackerKind.IN_MEMORY: {"refused": 0.60, "pause": 0.03},
}
MEASURED = ("membership_bytes", "memory_bytes", "loaded_count")
TICK_MS_MAX = 3

Row = tuple[int, int, int]

ledgers = st.integers(0, 5)
entries = st.integers(0, 6)
cuts = st.lists(st.integers(0, 12), max_size=4)


def batches(first_delay_ms: int, last_delay_ms: int) -> st.SearchStrategy[list[Row]]:
    """Return a strategy for rows with delays from a range.

    One number is a row, because three draws for each take longer than playing it.
    """
    count = last_delay_ms - first_delay_ms + 1
    rows = st.integers(0, count * 42 - 1).map(lambda n: (n // 42 + first_delay_ms, n // 7 % 6, n % 7))
    if first_delay_ms > TICK_MS_MAX:
        return st.lists(rows, min_size=1, max_size=12)
    # In one batch the first of several repeats wins, due or not; a cut between them decides on each by itself.
    return st.lists(rows, min_size=1, max_size=12, unique_by=lambda row: row[1:])


steps = st.one_of(
    st.tuples(st.just("add"), batches(4, 90), cuts),
    st.tuples(st.just("add"), batches(40, 40), cuts),
    st.tuples(st.just("add"), batches(-3, 90), cuts),
    st.tuples(st.just("add_with_some_due"), batches(4, 90), st.integers(1, 50), cuts),
    st.tuples(st.just("add_with_some_due"), batches(4, 90), st.integers(1, 50), cuts),
    st.tuples(st.just("pass_time"), st.integers(0, 10)),
    st.tuples(st.just("pop"), st.integers(1, 6), st.sampled_from([0, 20])),
    st.tuples(st.just("advance_mark_delete"), st.integers(0, 2), entries),
    st.tuples(st.just("perform_all")),
)


def limits_of(kind: TrackerKind) -> st.SearchStrategy[TrackerLimits]:
    return tiny_limits(
        kind=st.just(kind),
        tick_ms=st.sampled_from([0, TICK_MS_MAX]),
        strict=st.just(False),
        fixed_delay_lookahead=st.integers(0, 5),
    )


def buckets(shell: Shell) -> list[BucketView]:
    """Return the buckets, in memory without their deadlines, which may be those of removed copies."""
    views = shell.core.buckets()
    return [view if view.bucket_id else replace(view, min_deliver_at_ms=0, max_deliver_at_ms=0) for view in views]


class CutAndWhole:
    """Two trackers with the same history, but one is offered each batch in pieces."""

    def __init__(self, limits: TrackerLimits) -> None:
        self.whole, self.cut = Shell.with_limits(limits), Shell.with_limits(limits)
        self.hits: Counter[str] = Counter()
        self.compared_bucket_id = 0

    def add(self, batch: list[Row], cuts: list[int]) -> None:
        rows = [(self.whole.now_ms + delay_ms, ledger, entry) for delay_ms, ledger, entry in batch]
        before = self.whole.core.stats()
        stores, deletes = len(self.whole.asked(StoreSnapshot)), len(self.whole.asked(DeleteSnapshots))
        answer = plain(self.whole.add(*rows))
        pieces = {name: 0 if isinstance(value, int) else [] for name, value in answer.items()}
        for start, end in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
            for name, value in plain(self.cut.add(*rows[start:end])).items():
                pieces[name] += value if isinstance(value, int) else [start + offset for offset in value]
        assert pieces == answer
        self.compare()
        after = self.whole.core.stats()
        sealed = len(self.whole.asked(StoreSnapshot)) > stores
        refused = after.refused_as_due_count > before.refused_as_due_count
        self.hits["seal"] += sealed
        self.hits["late bucket"] += sealed and after.late_count < before.late_count
        self.hits["refused"] += refused
        self.hits["refused and sealed in one batch"] += refused and sealed
        self.hits["refused and drained in one batch"] += refused and len(self.whole.asked(DeleteSnapshots)) > deletes
        self.hits["pause"] += self.whole.core.pause_reading(self.whole.now_ms)

    def add_with_some_due(self, batch: list[Row], number: int, cuts: list[int]) -> None:
        """Offer tracked positions, which are due by now, among new rows."""
        buckets = self.whole.core._state.members.buckets.values()
        tracked = sorted(tuple(position) for bucket in buckets for position in bucket.bits.to_columns())
        again = [(-1_000, *position) for which, position in enumerate(tracked) if which * number % 7 < 3][:6]
        rows = [*again, *(row for row in batch if row[1:] not in {row[1:] for row in again})]
        self.add(sorted(rows, key=lambda row: (row[1] * number + row[2] * 31) % 11), cuts)

    def pass_time(self, delta_ms: int) -> None:
        self.whole.pass_time(delta_ms)
        self.cut.pass_time(delta_ms)

    def pop(self, count: int, lease_ms: int) -> None:
        assert plain(self.whole.pop(count, lease_ms=lease_ms)) == plain(self.cut.pop(count, lease_ms=lease_ms))

    def advance_mark_delete(self, ledger: int, entry: int) -> None:
        for shell in (self.whole, self.cut):
            shell.core.advance_mark_delete(Position(ledger, entry), shell.now)

    def perform_all(self) -> None:
        self.whole.perform_all()
        self.cut.perform_all()
        self.compare()
        check_unseen(self.cut.core)
        assert self.whole.snapshots.keys() == self.cut.snapshots.keys()
        for bucket_id in [bucket_id for bucket_id in self.whole.snapshots if bucket_id > self.compared_bucket_id]:
            whole, cut = self.whole.snapshots[bucket_id], self.cut.snapshots[bucket_id]
            assert plain(replace(whole, ledger_bytes=0.0)) == plain(replace(cut, ledger_bytes=0.0))
            self.hits["equal snapshots"] += 1
            self.compared_bucket_id = bucket_id

    def compare(self) -> None:
        whole, cut = self.whole, self.cut
        assert buckets(whole) == buckets(cut)
        # Bitmaps with the same bits may take different memory, and removed copies are dropped at different times.
        measured = {name: getattr(whole.core.stats(), name) for name in MEASURED}
        assert whole.core.stats() == replace(cut.core.stats(), **measured)
        assert whole.next_wakeup_ms() == cut.next_wakeup_ms()
        assert whole.core.pause_reading(whole.now_ms) == cut.core.pause_reading(cut.now_ms)
        to_store = [[effect.frozen.live for effect in shell.asked(StoreSnapshot)] for shell in (whole, cut)]
        assert to_store[0] == to_store[1]


@pytest.mark.parametrize("kind", TrackerKind)
def test_where_a_batch_is_cut_changes_nothing(kind: TrackerKind) -> None:
    """Answers, tracked positions, hand-outs, sealed buckets and wake-ups all equal those of the whole batches."""
    coverage = Coverage(REQUIRED_SHARES[kind])

    @tracker_examples()
    @given(limits=limits_of(kind), script=st.lists(steps, min_size=10, max_size=30))
    def play(limits: TrackerLimits, script: list[tuple[object, ...]]) -> None:
        both = CutAndWhole(limits)
        for verb, *arguments in script:
            getattr(both, str(verb))(*arguments)
        both.perform_all()
        assert both.whole.drain() == both.cut.drain()
        coverage.note(both.hits)

    play()
    coverage.require()
