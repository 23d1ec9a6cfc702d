"""Memory of ledgers of which nearly all entries are gone (apache/pulsar #26117)."""

import numpy as np
import pytest

from delayed_tracker.core.values.columns import PositionColumns, index_columns
from tests.scenarios.desk import Desk

FAR_MS = 3_600_000
LEDGERS, ENTRIES = 200, 4_096


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 30])
def test_the_reported_membership_follows_what_is_left_of_sealed_ledgers(parts: int) -> None:
    """Bitmaps that are drained to one entry each are reported as such, drained at once or little by little."""
    desk = Desk(seal_at=LEDGERS * ENTRIES, mutable_indexes_max=2 * LEDGERS * ENTRIES)
    ledgers, entries = np.arange(LEDGERS), 2 * np.arange(ENTRIES)
    ledger_id, entry_id = np.repeat(ledgers, ENTRIES), np.tile(entries, LEDGERS)
    desk.core.add(index_columns(np.full(len(ledger_id), desk.now_ms + FAR_MS), ledger_id, entry_id), desk.now)
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    before = desk.core.stats().membership_bytes
    for part in np.array_split(entries[1:], parts):
        desk.core.cancel(PositionColumns(np.repeat(ledgers, len(part)), np.tile(part, LEDGERS)), desk.now)
    desk.perform()
    assert desk.count == LEDGERS
    assert desk.core.stats().membership_bytes < 500 * LEDGERS < before
