"""Tests that the program that measures Pulsar's own parser reads its input."""

import pytest

from tests.benchmarks.inputs.scale import QUICK
from tests.benchmarks.inputs.stored_ledgers import entries
from tests.benchmarks.measure import Run, WrongOutput
from tests.benchmarks.peers.pulsar_parser import measure_pulsar_parser
from tests.ledger.harness.log_files import flipped

pytestmark = pytest.mark.long


@pytest.mark.usefixtures("pulsar")
def test_the_rate_is_that_of_entries_that_were_read(tmp_path):
    """The rate counts all entries, and an entry with a wrong checksum makes the program fail."""
    run = Run(scale=QUICK, directory=tmp_path, with_peers=True)
    payloads = list(entries(1_000))
    measure_pulsar_parser(run, payloads, ["ledger read", "ledger parse"])
    assert run.peers["ledger read"] == run.peers["ledger parse"]
    assert run.peers["ledger read"].is_measured
    assert run.peers["ledger read"].value > 0

    with pytest.raises(WrongOutput):
        measure_pulsar_parser(run, [*payloads[:-1], flipped(payloads[-1], -1)], ["ledger parse"])
