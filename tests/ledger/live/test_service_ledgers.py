"""The ledgers of a service whose ZooKeeper is away when it starts."""

import asyncio

import pytest

from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.service.errors import Recovering
from delayed_tracker.service.queries.ledger_access import LedgerAccess, LedgerAnswers
from tests.bookkeeper.servers.proxy import running_proxy
from tests.ledger.harness.cluster_topic import ClusterTopic
from tests.ledger.harness.log_files import message
from tests.service.harness.settings import settings_of

# An attempt to connect takes 10 s.
pytestmark = [pytest.mark.slow, pytest.mark.long]


def access_to(url: str) -> LedgerAccess:
    given = settings_of(storage_url="memory:", ledger_source_url=url)
    return LedgerAccess(given.ledger.ledger_source_url, LedgerAnswers.of(given))


async def test_ledgers_are_opened_when_zookeeper_answers(topic: ClusterTopic):
    """The service starts without them, refuses their queries with a time to retry, and needs no restart."""
    ledger_id = await asyncio.to_thread(topic.add_ledger, [message(index=index) for index in range(3)])
    async with running_proxy(int(topic.url.rpartition(":")[2])) as proxy:
        proxy.turn_away()
        ledgers = access_to(f"bookkeeper+zk:{proxy.address}")
        await ledgers.start()
        with pytest.raises(Recovering, match="the ledgers are not open; try again in") as caught:
            await ledgers.message_id_by_index(topic.name, 0, mode=IndexLookupMode.PROPOSAL)
        assert caught.value.retry_after_ms > 0
        proxy.serve_again()
        async with asyncio.timeout(120):
            while True:
                try:
                    found = await ledgers.message_id_by_index(topic.name, 1, mode=IndexLookupMode.PROPOSAL)
                except Recovering:
                    await asyncio.sleep(0.1)
                else:
                    break
        assert (found.ledger_id, found.entry_id) == (ledger_id, 1)
        await ledgers.close()


async def test_a_service_that_stops_meanwhile_waits_for_no_zookeeper():
    """The attempts end with the service."""
    ledgers = access_to("bookkeeper+zk:127.0.0.1:1")
    await ledgers.start()
    async with asyncio.timeout(5):
        await ledgers.close()
    with pytest.raises(Recovering):
        await ledgers.message_id_by_index("persistent://t/n/t", 1, mode=IndexLookupMode.PROPOSAL)
