"""The peer's numbers for what bench_core.py measures of the core: a heap and a dict, one Python step for each index."""

import numpy as np

from tests.benchmarks.bench_core import BATCH, NOW_MS, WEEK_MS, batches, offered
from tests.benchmarks.heap_and_dict import HeapAndDict
from tests.benchmarks.measure import measure

COUNT = 200_000
Row = tuple[int, int, int]


def rows() -> list[list[Row]]:
    return [list(part) for part in batches(offered(COUNT, WEEK_MS, per_ledger=COUNT))]


def filled(parts: list[list[Row]]) -> HeapAndDict:
    peer = HeapAndDict()
    for part in parts:
        peer.add(part, NOW_MS)
    return peer


def test_peer_add():
    """Batches of 1,000 rows that are tuples already."""
    parts = rows()
    peers: list[HeapAndDict] = []
    measure(
        "peer: add, batches of 1,000",
        COUNT,
        prepare=peers.clear,
        run=lambda _: peers.append(filled(parts)),
        verify=lambda _: len(peers[0]) == COUNT,
    )


def test_peer_pop():
    """Hand-off in batches of 1,000."""
    parts = rows()
    popped: list[Row] = []

    def prepare() -> HeapAndDict:
        popped.clear()
        return filled(parts)

    def drain(peer: HeapAndDict) -> None:
        while got := peer.pop_due(BATCH, NOW_MS + 2 * WEEK_MS):
            popped.extend(got)

    measure(
        "peer: pop in batches of 1,000, hand-off",
        COUNT,
        prepare=prepare,
        run=drain,
        verify=lambda peer: len(popped) == COUNT and not peer and popped == sorted(popped),
    )


def test_peer_contains():
    """Batches of 1,000 positions, all tracked."""
    parts = rows()
    peer = filled(parts)
    asked = [[row[1:] for row in part] for part in parts]
    answers: list[bool] = []
    measure(
        "peer: contains, batches of 1,000",
        COUNT,
        prepare=answers.clear,
        run=lambda _: [answers.extend(peer.contains(part)) for part in asked],
        verify=lambda _: bool(np.all(answers)) and len(answers) == COUNT,
    )
