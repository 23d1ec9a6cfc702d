"""Changes together have the effect of the changes one by one."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.net_changes import net_changes
from delayed_tracker.core.values.changes import Added, MarkDeleteAdvanced, OfferedThrough, Removed, Rescheduled
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns

POSITIONS = st.builds(Position, st.integers(0, 3), st.integers(0, 4))
INDEXES = st.dictionaries(POSITIONS, st.integers(0, 9), max_size=6).map(
    lambda rows: IndexColumns.of([(deadline, *position) for position, deadline in rows.items()])
)
CHANGES = st.lists(
    st.one_of(
        INDEXES.map(Added),
        INDEXES.map(Rescheduled),
        st.lists(POSITIONS, max_size=6).map(lambda positions: Removed(PositionColumns.of(positions))),
        POSITIONS.map(MarkDeleteAdvanced),
        POSITIONS.map(OfferedThrough),
    ),
    max_size=12,
)


def one_by_one(tracked, changes):
    """Return what is tracked after the changes, and where the cursor and the claim are."""
    tracked, mark_delete, offered_through = dict(tracked), None, None
    for change in changes:
        match change:
            case Added():
                for deadline, *position in change.indexes:
                    tracked.setdefault(Position(*position), deadline)
            case Rescheduled():
                tracked |= {Position(*position): deadline for deadline, *position in change.indexes}
            case Removed():
                for position in change.positions:
                    tracked.pop(position, None)
            case MarkDeleteAdvanced():
                mark_delete = max(mark_delete or change.mark_delete, change.mark_delete)
            case OfferedThrough():
                offered_through = change.position
    return tracked, mark_delete, offered_through


@given(st.dictionaries(POSITIONS, st.integers(10, 19), max_size=8), CHANGES)
def test_changes_together_have_the_effect_of_each_after_the_other(tracked, changes):
    """Whatever was tracked before; the first change that adds is named."""
    numbers = range(7, 7 + len(changes))
    net = net_changes(numbers, changes)
    after = {position: deadline for position, deadline in tracked.items() if position not in set(net.removed)}
    for deadline, *position in net.added:
        after.setdefault(Position(*position), deadline)
    assert (after, net.mark_delete, net.offered_through) == one_by_one(tracked, changes)
    assert not net.removed.repeats().any()
    assert not net.added.positions.repeats().any()
    added = {Position(*position) for _, *position in net.added}
    assert (net.first_added is None) == (not added)
    if net.first_added is not None:
        first = changes[net.first_added - 7]
        assert added.intersection(first.indexes.positions)
        earlier = [number for number in numbers if number < net.first_added]
        assert not added.intersection(net_changes(earlier, changes[: len(earlier)]).added.positions) or any(
            position in set(net.removed) for position in added
        )


def test_rows_are_added_in_the_order_of_the_log():
    """Buckets are sealed where a ledger follows another, as they were before."""
    rows = [(5, 2, 1), (5, 1, 7), (5, 3, 0)]
    net = net_changes(
        [1, 2, 3, 4], [*(Added(IndexColumns.of([row])) for row in rows), Removed(PositionColumns.of([(1, 7)]))]
    )
    assert list(net.added) == [(5, 2, 1), (5, 3, 0)]
    assert net.first_added == 1
