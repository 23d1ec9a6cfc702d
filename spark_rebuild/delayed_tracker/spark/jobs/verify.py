"""Complete verification: compares the delayed messages of the ledgers with a live index, in Spark's tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.spark import schema
from delayed_tracker.spark.jobs.ledger_rows import KEPT, ReadResult, reading
from delayed_tracker.spark.jobs.tracker_plan import TrackerPlan
from delayed_tracker.spark.plan.acceptance import IndexOutcome
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.stage_timer import Report
from delayed_tracker.spark.steps.comparing import (
    ABOVE_ALL,
    LISTED,
    LISTED_MAX,
    Comparison,
    ComparisonRules,
    DeadlineMismatch,
    Finding,
    NotCompared,
)
from delayed_tracker.spark.steps.comparison_runs import (
    FINDING,
    INDEX_MS,
    LEDGER_MS,
    compare_runs,
    runs_of_index,
    runs_of_ledgers,
    task_count_of,
)
from delayed_tracker.spark.steps.live_index import LiveIndex, LiveRows
from delayed_tracker.spark.summary import Summary

LISTED_IN_ALL_MAX: Final = 100_000
"""Largest number of positions that are listed for all subscriptions together."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification."""

    summary: Summary
    """Summary as a dry run of a rebuild returns it."""
    comparisons: tuple[Comparison, ...]
    not_compared: tuple[NotCompared, ...]
    """Subscriptions whose index could not be read, in the order of the others."""
    lost: tuple[str, ...] = ()
    """Buckets that could not be read; their indexes count as missing."""

    @property
    def has_differences(self) -> bool:
        """True if a compared subscription has missing, extra or different positions."""
        return not all(comparison.is_equal for comparison in self.comparisons)


def verify(
    session: SparkSession,
    settings: RebuildSettings,
    live: LiveIndex,
    *,
    clock: Callable[[], int] | None = None,
    report: Report | None = None,
) -> Verification:
    """Compare all chosen subscriptions of all chosen topics with a live index.

    Args:
        session: a session with the format ``pulsar_ledger``.
        settings: as for a rebuild; nothing is staged.
        live: the index.
        clock: returns the time in milliseconds, and is called after the index was read: what became due while the
            ledgers were read may be delivered by then. None compares all that is not due at ``settings.now_ms``.
        report: called with the name of each stage: look, read, count, plan, index, compare.
    Returns: a comparison for each subscription, or the reason why there is none.
    Raises: as ``delayed_tracker.spark.jobs.rebuild.rebuild`` without a target, and all errors of ``live`` but
        IndexNotReadable.
    Cost: reads each ledger and each snapshot once; the driver holds a set of positions for each subscription.
    """
    with reading(session, settings, report=report) as work:
        plans = work.plans()
        with work.stages.of("index"):
            index = live.rows(session, [plan.subscriber.key for plan in plans])
        read_ms = settings.now_ms if clock is None else clock()
        rules = _rules(work, plans, index, settings.limits.cutoff_ms(read_ms))
        with work.stages.of("compare"), _compared(work, plans, index, rules) as findings:
            counts = _counts(findings)
            positions = _listed(findings) if _has_listed(counts) else {}
            lost = sorted({*index.lost, *_lost(findings)})
        accounts = [plan.summary() for plan in plans]
        comparisons, not_compared = [], []
        for number, (plan, account) in enumerate(zip(plans, accounts, strict=True)):
            unreadable = index.not_readable.get(number)
            if unreadable is None:
                comparisons.append(_comparison(plan, account.replay_from, number, counts, positions))
            else:
                expected = sum(len(tally.bits) for tally in plan.tallies.values())
                key = plan.subscriber.key
                not_compared.append(NotCompared(*key, expected, unreadable.reason, unreadable.message))
        return Verification(work.summary(accounts), tuple(comparisons), tuple(not_compared), tuple(lost))


_Counts = Mapping[tuple[int, int], int]
"""Positions by (subscriber, finding); 0 if there is none."""
_Listed = Mapping[tuple[int, int], Sequence[tuple[Position, int, int]]]
"""Listed positions with both deadlines by (subscriber, finding)."""


def _rules(work: ReadResult, plans: Sequence[TrackerPlan], index: LiveRows, cutoff_ms: int) -> ComparisonRules:
    unread = work.unread()
    of_topics = {topic: unread.positions(topic) for topic in {plan.subscriber.topic for plan in plans}}
    return ComparisonRules(
        cutoff_ms=cutoff_ms,
        is_compared=np.array([number not in index.not_readable for number in range(len(plans))], np.bool_),
        tails=_columns([plan.plan.tail_first or ABOVE_ALL for plan in plans]),
        ends=_columns([work.ends.get(plan.subscriber.topic, ABOVE_ALL) for plan in plans]),
        unread={
            number: of_topics[plan.subscriber.topic]
            for number, plan in enumerate(plans)
            if of_topics[plan.subscriber.topic]
        },
    )


def _columns(positions: Sequence[Position]) -> PositionColumns:
    both = np.array(positions, np.int64).reshape(len(positions), 2)
    return PositionColumns(both[:, 0], both[:, 1])


@contextmanager
def _compared(
    work: ReadResult, plans: Sequence[TrackerPlan], index: LiveRows, rules: ComparisonRules
) -> Iterator[DataFrame]:
    """Yield the findings, which Spark keeps for the length of the block."""
    tallies = [tally for plan in plans for tally in plan.tallies.values()]
    task_count = task_count_of(index.row_count + sum(int(tally.outcomes[IndexOutcome.ACCEPTED]) for tally in tallies))
    shared = work.rows.sparkSession.sparkContext.broadcast(rules)
    runs = work.rows.transform(runs_of_ledgers(work.shared, work.acceptance, task_count)).union(
        index.frame.transform(runs_of_index(task_count))
    )
    findings = runs.transform(compare_runs(shared, task_count)).persist(KEPT)
    try:
        yield findings
    finally:
        findings.unpersist()
        shared.destroy()


def _counts(findings: DataFrame) -> _Counts:
    counted = findings.where(F.col(schema.INDEX_COUNT).isNotNull()).groupBy(schema.SUBSCRIBER, FINDING)
    return {(row[0], row[1]): row[2] for row in counted.agg(F.sum(schema.INDEX_COUNT)).collect()}


def _has_listed(counts: _Counts) -> bool:
    return any(finding in LISTED for _, finding in counts)


def _listed(findings: DataFrame) -> _Listed:
    """Return the first listed positions of each subscription and kind, ascending."""
    first = Window.partitionBy(schema.SUBSCRIBER, FINDING).orderBy(schema.LEDGER_ID, schema.ENTRY_ID)
    order = (schema.SUBSCRIBER, FINDING, schema.LEDGER_ID, schema.ENTRY_ID)
    rows = (
        findings.where(F.col(schema.LEDGER_ID).isNotNull())
        .select(*order, LEDGER_MS, INDEX_MS, F.row_number().over(first).alias("place"))
        .where(F.col("place") <= LISTED_MAX)
        .orderBy(*order)
        .limit(LISTED_IN_ALL_MAX)
        .toArrow()
    )
    listed: dict[tuple[int, int], list[tuple[Position, int, int]]] = {}
    for subscriber, finding, ledger, entry, ledger_ms, index_ms, _ in zip(
        *(column.to_pylist() for column in rows.columns), strict=True
    ):
        listed.setdefault((subscriber, finding), []).append((Position(ledger, entry), ledger_ms, index_ms))
    return listed


def _lost(findings: DataFrame) -> list[str]:
    return [row[0] for row in findings.where(F.col(schema.ERROR).isNotNull()).select(schema.ERROR).collect()]


def _comparison(
    plan: TrackerPlan, replay_from: Position | None, number: int, counts: _Counts, listed: _Listed
) -> Comparison:
    def count(finding: Finding) -> int:
        return counts.get((number, finding), 0)

    def positions(finding: Finding) -> tuple[Position, ...]:
        return tuple(position for position, _, _ in listed.get((number, finding), ()))

    topic, subscription = plan.subscriber.key
    return Comparison(
        topic=topic,
        subscription=subscription,
        expected=count(Finding.EXPECTED),
        found=count(Finding.FOUND),
        missing=count(Finding.MISSING),
        extra=count(Finding.EXTRA),
        differing=count(Finding.DIFFERING),
        too_recent=count(Finding.TOO_RECENT),
        newer=count(Finding.NEWER),
        replay_from=replay_from,
        missing_positions=positions(Finding.MISSING),
        extra_positions=positions(Finding.EXTRA),
        differing_positions=tuple(
            DeadlineMismatch(*differing) for differing in listed.get((number, Finding.DIFFERING), ())
        ),
    )
