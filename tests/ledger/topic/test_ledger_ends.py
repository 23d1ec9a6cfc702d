"""Tests of where ledgers end if the metadata of the ledger and of the topic are not of the same moment."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.log_files import ledger_path, ledger_value, message


@pytest.mark.parametrize("open_ledgers", OpenLedgers)
@pytest.mark.parametrize("kept", [10, 7])
def test_a_ledger_that_ended_while_the_dump_was_written(tmp_path, open_ledgers, kept):
    """A ledger ends where the topic recorded, even if the dump has the ledger's own metadata from before its end."""
    files = DiskFiles(tmp_path)
    files.records = files.add_ledger(5, [message(deliver_at_ms=50 + entry) for entry in range(10)])[:kept]
    files.metadata[ledger_path(5)] = ledger_value(last_entry_id=None)
    files.add_ledger(6, [message(deliver_at_ms=60)])
    files.add_cursor(cursor_at(5, -1))

    report = files.pending(open_ledgers=open_ledgers, on_error=ErrorPolicy.SKIP)

    assert list(report.indexes.positions) == [*(Position(5, entry) for entry in range(kept)), Position(6, 0)]
    missing = [(5, kept, 10 - kept)] if kept < 10 else []
    assert [(bad.ledger_id, bad.entry_id, bad.entry_count) for bad in report.bad_entries] == missing
    with files.open() as disk:
        ledgers = disk.topic_log(report.topic).ledgers
    assert [(ledger.last_entry_id, ledger.closed) for ledger in ledgers] == [(9, True), (0, True)]
    if missing:
        with pytest.raises(EntriesUnreadable, match="entries 5:7 to 9: no log has"):
            files.pending(open_ledgers=open_ledgers)
