"""If several buckets contain a position, the one frozen last wins after a crash, in any order of their stores."""

from collections.abc import Callable

from delayed_tracker.core.engine.effects import MergeSnapshots, StoreSnapshot
from delayed_tracker.core.values.columns import Position, PositionColumns
from tests.scenarios.desk import CREATE, MERGE, Desk

FAR = 3_600_000
MOVED = (5, 0)
"""Position that is cancelled and added again."""
SOON, LATER = 10_000, 990_000


def seal(desk: Desk, *rows: tuple[int, int, int]) -> None:
    """Add rows and make a bucket of them."""
    desk.add(rows)
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()


def add_again(desk: Desk, in_ms: int, *, beside: int = 1) -> None:
    """Cancel the position and add it with another deadline, beside others of one late bucket that is sealed at once."""
    desk.core.cancel(PositionColumns.of([MOVED]), desk.now)
    desk.perform()
    desk.add([(*MOVED, in_ms), *((3, entry_id, FAR) for entry_id in range(beside))])


def comes_in(desk: Desk) -> int:
    """Return the time after which the position is handed out."""
    begun_ms = desk.now_ms
    while True:
        wakeup_ms = desk.next_wakeup_ms()
        assert wakeup_ms is not None
        desk.sleep(max(0, wakeup_ms - desk.now_ms))
        if Position(*MOVED) in desk.due():
            return desk.now_ms - begun_ms


def test_a_newer_deadline_survives_though_the_older_bucket_was_stored_last() -> None:
    """With two stores in flight and the first retried, a crash keeps the newest deadline."""
    desk = Desk(late_indexes_max=2)
    desk.held.add(CREATE)
    seal(desk, (*MOVED, SOON), (5, 1, FAR), (5, 2, FAR))
    add_again(desk, LATER)
    desk.perform_newest(CREATE)
    desk.release(CREATE)
    desk.restart()
    assert comes_in(desk) == LATER


def test_an_earlier_deadline_asked_for_later_survives_as_well() -> None:
    """The newer deadline wins even if it is the earlier of the two."""
    desk = Desk(late_indexes_max=2)
    desk.held.add(CREATE)
    seal(desk, (*MOVED, LATER), (5, 1, FAR), (5, 2, FAR))
    add_again(desk, SOON)
    desk.perform_newest(CREATE)
    desk.release(CREATE)
    desk.restart()
    assert comes_in(desk) == SOON


def test_content_that_is_frozen_anew_takes_a_new_number() -> None:
    """A retried store takes the remaining content, which is newer than all that was frozen meanwhile."""
    desk = Desk(late_indexes_max=2)
    desk.failing.add(CREATE)
    seal(desk, (*MOVED, SOON), (5, 1, FAR), (5, 2, FAR))
    desk.failing.clear()
    add_again(desk, LATER)
    desk.sleep(desk.limits.retry_backoff_ms)
    stores = [effect for effect in desk.performed if isinstance(effect, StoreSnapshot)]
    assert [(store.seal_number, len(store.frozen)) for store in stores] == [(1, 3), (2, 2), (3, 2)]


def comes_after_a_crash(desk: Desk, number_of: Callable[[list[int]], int] | None = None, **limits: int) -> int:
    """Return the time after which the position comes; ``number_of`` overrides the seal number of the merge."""
    (merge,) = (effect for effect in desk.performed if isinstance(effect, MergeSnapshots))
    if number_of is not None:
        (merged,) = (bucket_id for bucket_id in desk.catalogue if desk.seal_numbers[bucket_id] == merge.seal_number)
        desk.seal_numbers[merged] = number_of([desk.seal_numbers[source.bucket_id] for source in merge.sources])
    desk.restart(**limits)
    return comes_in(desk)


def test_the_lowest_number_of_its_sources_is_wrong_for_a_merge() -> None:
    """With the lowest number of its sources, a merge loses to the bucket of the old deadline, 980 s early."""

    def merged() -> Desk:
        desk = Desk(late_indexes_max=2, max_num_buckets=2)
        desk.held.add(MERGE)
        seal(desk, (4, 0, FAR))
        # Too large to be merged with.
        seal(desk, (*MOVED, SOON), *((5, entry_id, FAR) for entry_id in range(1, 9)))
        add_again(desk, LATER)
        desk.release(MERGE)
        return desk

    assert comes_after_a_crash(merged()) == LATER
    assert comes_after_a_crash(merged(), min) == SOON


def test_the_highest_number_of_its_sources_is_wrong_for_a_merge() -> None:
    """With the highest number of its sources, a merge loses to a newer bucket that a recovery skipped as due.

    A recovery leaves due positions to the replay. An older bucket that also has the position goes on to track it, and
    is merged. When a later recovery with a smaller tick finds the newer bucket not due, the tracked state must win.
    """

    def merged() -> Desk:
        desk = Desk(late_indexes_max=4, tick_ms=SOON)
        seal(desk, (4, 0, FAR))
        seal(desk, (*MOVED, LATER), (5, 1, FAR))
        add_again(desk, SOON + 5_000, beside=3)
        desk.sleep(5_000)
        desk.restart(max_num_buckets=2)
        return desk

    assert comes_after_a_crash(merged(), tick_ms=0) == LATER - 5_000
    assert comes_after_a_crash(merged(), max, tick_ms=0) == SOON
