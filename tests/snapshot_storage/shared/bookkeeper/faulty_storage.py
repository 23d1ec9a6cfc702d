"""The storage over BookKeeper with planned faults between it and its two stores."""

from delayed_tracker.storage.bookkeeper.ledgers import TrackerLedgers
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.testing.shared_faults import FaultyDocuments, SharedFaults


class FaultyLedgers(TrackerLedgers):
    """Ledgers, with faults as planned."""

    faults: SharedFaults

    async def create(self, *arguments):
        return await self.faults.perform("put", lambda: super(FaultyLedgers, self).create(*arguments))

    async def read(self, *arguments):
        return await self.faults.perform("get", lambda: super(FaultyLedgers, self).read(*arguments))

    async def read_all(self, ledger_id):
        return await self.faults.perform("get", lambda: super(FaultyLedgers, self).read_all(ledger_id))

    async def delete(self, *arguments):
        return await self.faults.perform("delete", lambda: super(FaultyLedgers, self).delete(*arguments))

    async def registered(self, folder):
        found = await self.faults.perform("list", lambda: super(FaultyLedgers, self).registered(folder))
        return self.faults.shown(folder, found)


class FaultyStorage(BookKeeperStorage):
    """The storage, with faults as planned."""

    def __init__(self, url, faults, **options):
        super().__init__(url, **options)
        self._faults = faults

    def _stores(self, client):
        documents, _ = super()._stores(client)
        ledgers = FaultyLedgers(client, self._url, self._instance)
        ledgers.faults = self._faults
        return FaultyDocuments(documents, self._faults), ledgers
