"""Runs and the shared heap on their own."""

from delayed_tracker.core.index.run_heap import RunHeap
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.columns import IndexColumns


def rows(*table: tuple[int, int, int]) -> IndexColumns:
    return IndexColumns.of(table)


def test_an_unsorted_run_announces_its_earliest_deadline():
    """Adding to a run compares only the first deadline."""
    run = Run(1, 1)
    run.append(rows((9, 1, 0), (7, 1, 1)), 7)
    run.append(rows((8, 1, 2)), 8)
    assert (run.min_deliver_at_ms, len(run), run.is_sorted) == (7, 3, False)
    run.sort()
    assert list(run.rows) == [(7, 1, 1), (8, 1, 2), (9, 1, 0)]
    run.check()


def test_a_run_knows_its_last_deadline_however_it_came():
    """The last deadline is right for rows that are sorted, unsorted, joined, or partly consumed."""
    run = Run(1, 1, rows((5, 1, 0), (8, 1, 1)))
    assert run.max_deliver_at_ms == 8
    run.append(rows((9, 1, 2), (6, 1, 3)), 6)
    run.append(rows((7, 1, 4)), 7)
    assert run.max_deliver_at_ms == 9
    run.append(rows((11, 1, 5)), 11)
    assert (run.max_deliver_at_ms, run._latest) == (11, (1, 11))
    run.sort()
    run.advance(5)
    assert run.max_deliver_at_ms == 11
    run.check()


def test_single_rows_take_little_more_memory_than_rows():
    """Single rows are joined to a few chunks as they come; no row is lost or out of place."""
    run = Run(1, 1)
    for number in range(1_000):
        run.append(rows((2_000 - number, 1, number)), 2_000 - number)
    assert len(run.chunks()) <= 12
    assert run.nbytes < 2 * 24 * 1_000
    run.check()
    assert [entry_id for chunk in run.chunks() for entry_id in chunk.entry_id.tolist()] == list(range(1_000))


def test_an_exhausted_run_that_is_filled_again_forgets_its_old_minimum():
    """A run that was empty and is filled again does not keep its old first deadline."""
    run = Run(1, 1, rows((5, 1, 0)))
    run.advance(1)
    run.append(rows((9, 1, 1)), 9)
    assert run.min_deliver_at_ms == 9
    run.check()


def test_consumed_rows_of_a_long_run_are_let_go():
    """Consumed rows of a long run are freed: a view would keep them as long as the last row waits."""
    run = Run(1, 1, rows(*[(number, 1, number) for number in range(10_000)]))
    run.advance(6_000)
    assert len(run._rows) == len(run) == 4_000
    assert list(run.rows.take(slice(0, 1))) == [(6_000, 1, 6_000)]


def test_due_prefix_ends_after_the_cutoff_and_the_count():
    """Rows with a deadline at the cutoff are due."""
    run = Run(1, 1, rows((1, 1, 0), (2, 1, 1), (2, 1, 2), (3, 1, 3)))
    assert len(run.due_prefix(2, 10)) == 3
    assert len(run.due_prefix(2, 2)) == 2
    assert len(run.due_prefix(0, 10)) == 0


def test_the_heap_finds_the_run_with_the_earliest_head():
    """The run with the earliest head is found, also after an earlier row was added to another run."""
    heap = RunHeap()
    heap.new_run(1, rows((5, 1, 0)))
    late = heap.new_run(2)
    assert heap.first() is heap.of_bucket(1)[0]
    heap.append(late, rows((9, 2, 0)), 9)
    heap.append(late, rows((3, 2, 1)), 3)
    assert heap.first() is late
    heap.check()


def test_dropping_a_bucket_drops_all_its_runs():
    """Dropping a bucket drops all its runs and keeps the counts right."""
    heap = RunHeap()
    heap.new_run(1, rows((1, 1, 0)))
    heap.new_run(1, rows((2, 1, 1)))
    heap.new_run(2, rows((3, 2, 0)))
    heap.drop_bucket(1)
    assert (heap.of_bucket(1), heap.loaded_count, len(heap)) == ([], 1, 1)
    heap.check()


def test_only_the_runs_that_are_needed_leave_the_heap():
    """With ten thousand due runs, only those that hold the requested thousand rows leave the heap."""
    heap = RunHeap()
    for number in range(1_000):
        heap.new_run(1, rows((number, 1, 2 * number), (number, 1, 2 * number + 1)))
    assert len(heap.due_runs(5_000, 100)) == 64
    assert len(heap.due_runs(5_000, 10_000)) == 936


def test_a_run_with_unsorted_rows_does_not_count_as_enough():
    """A run with unsorted rows does not count as enough, since only its first deadline is known."""
    heap = RunHeap()
    for number in range(100):
        heap.append(heap.new_run(1), rows((number, 1, number)), number)
    assert len(heap.due_runs(5_000, 1)) == 100


def test_the_heap_forgets_what_runs_announced_before():
    """Entries of ever earlier deadlines are removed: otherwise each would stay until its deadline."""
    heap = RunHeap()
    run = heap.new_run(1)
    for number in range(1_000):
        heap.append(run, rows((5_000 - number, 1, number)), 5_000 - number)
    assert len(heap._heap) < 100
    heap.check()
