"""Conditions of a query that the data source applies itself.

Conditions are ranges of whole numbers over three columns, joined by AND. They determine which ledgers are read, and
rows that do not match never leave Python. As in SQL, a row without a value matches no range.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from delayed_tracker.core.values.columns import BoolArray
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.spark import schema

_LOWEST: Final = -(1 << 63)
_HIGHEST: Final = (1 << 63) - 1
_PUSHED: Final = frozenset({schema.LEDGER_ID, schema.DELIVER_AT_MS, schema.PUBLISH_TIME})


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``first`` to ``last``, both included; empty if ``first`` is greater than ``last``."""

    first: int = _LOWEST
    last: int = _HIGHEST

    def __contains__(self, value: int) -> bool:
        return self.first <= value <= self.last

    def intersection(self, other: "Range") -> "Range":
        """Return the intersection of two ranges."""
        return Range(max(self.first, other.first), min(self.last, other.last))


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """One range for each column that has a condition."""

    ranges: Mapping[str, Range] = field(default_factory=dict)

    @classmethod
    def of(cls, conditions: Iterable[Filter]) -> tuple["EntryFilter", list[Filter]]:
        """Return the filter of a query, and the conditions that are left to Spark."""
        ranges: dict[str, Range] = {}
        rest: list[Filter] = []
        for condition in conditions:
            found = _range(condition)
            if found is None:
                rest.append(condition)
            else:
                column, wanted = found
                ranges[column] = ranges.get(column, Range()).intersection(wanted)
        return cls(ranges), rest

    @property
    def ledgers(self) -> Range:
        """Range of ledgers that may have matching rows."""
        return self.ranges.get(schema.LEDGER_ID, Range())

    def keeps_bad(self, ledger_id: int | None) -> bool:
        """Return True if the row of a bad entry matches; only its position has values."""
        if self.ranges.keys() <= {schema.LEDGER_ID}:
            return not self.ranges or (ledger_id is not None and ledger_id in self.ledgers)
        return False

    def keeps(self, columns: EntryColumns) -> BoolArray:
        """Return the mask of rows that match, without regard to their ledger."""
        kept = np.ones(len(columns), np.bool_)
        if (wanted := self.ranges.get(schema.DELIVER_AT_MS)) is not None:
            kept &= columns.has(EntryFlag.DELAYED)
            kept &= (columns.deliver_at_ms >= wanted.first) & (columns.deliver_at_ms <= wanted.last)
        if (wanted := self.ranges.get(schema.PUBLISH_TIME)) is not None:
            kept &= (columns.publish_time_ms >= wanted.first) & (columns.publish_time_ms <= wanted.last)
        return kept


def _range(condition: Filter) -> tuple[str, Range] | None:
    """Return column and range of a condition; None if it has another form."""
    if not isinstance(
        condition, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | IsNotNull
    ) or condition.attribute not in {(column,) for column in _PUSHED}:
        return None
    (column,) = condition.attribute
    if isinstance(condition, IsNotNull):
        return column, Range()
    value = condition.value
    if not isinstance(value, int):
        return None
    match condition:
        case EqualTo():
            return column, Range(value, value)
        case GreaterThan():
            return column, Range(value + 1)
        case GreaterThanOrEqual():
            return column, Range(value)
        case LessThan():
            return column, Range(last=value - 1)
        case _:
            return column, Range(last=value)
