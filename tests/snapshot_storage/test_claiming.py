"""Claims of a tracker in a catalogue and an add log that do not agree on its epoch."""

from delayed_tracker.storage.maintenance.claiming import claim_tracker
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.snapshot_storage.shared.maintenance.stores import at_once

KEY = ("topic", "cursor")


async def test_a_log_that_is_far_ahead_of_its_catalogue_is_claimed_at_once():
    """A catalogue from a backup beside a newer log: the claim is above both."""
    storage, log = MemoryStorage(), MemoryAddLog()
    await storage.start()
    await log.start()
    await storage.replace(*KEY, remove=(), add=(), epoch=3, writer="old")
    await log.take_over(*KEY, epoch=50, writer="old")
    claimed = await claim_tracker(storage, log, KEY, writer="new", attempt=at_once)
    assert (claimed.epoch, claimed.state.epoch, claimed.extent.epoch) == (51, 51, 51)
