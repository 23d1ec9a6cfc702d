"""The client's queries about ledgers against the real service, which reads data of a real Pulsar."""

from hashlib import sha256

import pytest

from delayed_tracker.client import IndexLookupMode, NotFound, Position, QueryNotSupported
from tests.cli.ledger_sources import MAIN, PULSAR
from tests.golden.pulsar_pack import expected

pytestmark = pytest.mark.slow
PLAIN = f"{MAIN}plain"


@pytest.fixture(scope="module")
def shared_settings() -> dict[str, str]:
    """Return settings with ledgers, and with the configuration of the broker that wrote them."""
    return {
        "ledgerSourceUrl": PULSAR,
        "brokerEntryMetadataInterceptors": "index,timestamp",
        "exposingBrokerEntryMetadataToClientEnabled": "true",
    }


async def test_messages_by_index_time_and_at_the_end(client):
    """Look-ups by index, by time and at the end equal the answers of Pulsar's own classes on the same bytes."""
    ledgers = client.ledgers
    by_index = await ledgers.get_message_id_by_index(PLAIN, 7)
    assert by_index.position == Position(27, 7)
    assert await ledgers.get_message_id_by_index(PLAIN, 7, mode=IndexLookupMode.PULSAR_COMPATIBLE) == by_index
    sought = await ledgers.seek_by_time(PLAIN, 0)
    assert (sought.position, sought.behind_end) == (Position(27, 0), False)
    assert (await ledgers.seek_by_time(PLAIN, 2**63 - 1)).behind_end
    last = await ledgers.get_last_message_position(PLAIN)
    assert (await ledgers.seek_by_time(PLAIN, 2**63 - 1)).position > last.position
    with pytest.raises(NotFound, match="index 250"):
        await ledgers.get_message_id_by_index(PLAIN, 250)
    with pytest.raises(NotFound, match="similar names"):
        await ledgers.seek_by_time(f"{MAIN}plane", 0)
    with pytest.raises(QueryNotSupported, match="name one of its partitions"):
        await ledgers.get_last_message_position(f"{MAIN}parted")


async def test_every_entry_of_a_topic(client):
    """Pages of any size contain every entry once."""
    rows = [row for row in expected("entries") if row["topic"] == PLAIN]
    known = {(row["ledger"], row["entry"]): row["sha256"] for row in rows}
    for page_entries in (7, 1000):
        entries = client.ledgers.read_entries(PLAIN, page_entries=page_entries, protocol_version=18)
        pages = [page async for page in entries]
        read = {entry.position: sha256(entry.payload).hexdigest() for page in pages for entry in page.entries}
        assert list(read.items()) == list(known.items())
        assert not any(page.unreadable for page in pages)
        assert max(len(page.entries) for page in pages) <= page_entries
    third_last = Position(*list(known)[-3])
    (behind,) = [page async for page in client.ledgers.read_entries(PLAIN, third_last)]
    assert [entry.position for entry in behind.entries] == list(known)[-3:]
    # A reader with an older protocol version gets no broker frames.
    assert all(sha256(entry.payload).hexdigest() != known[entry.position] for entry in behind.entries)
