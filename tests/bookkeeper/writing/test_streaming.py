"""Tests of entries that are added as they come."""

from typing import Final

import pytest

from delayed_tracker.bookkeeper.errors import NotEnoughBookies
from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER, DIGEST_BYTES, DigestType
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.writing.streaming import add_stream
from tests.bookkeeper.writing.ledger import fail_entry

pytestmark = pytest.mark.slow

BEFORE_PAYLOAD: Final = BODY_HEADER.size + DIGEST_BYTES[DigestType.CRC32C]


async def test_a_stream_is_sent_in_parts_and_in_order(setting_of):
    """Small entries go together, and a large one ends what is held back."""
    payloads = [number.to_bytes(4, "big") + bytes(size) for number, size in enumerate([3, *([5] * 130), 2**20, 7, 7])]

    async def entries():
        for payload in payloads:
            yield payload

    async with setting_of(1) as setting:
        writer = await setting.create(1, 1, 1)
        await add_stream(writer, entries())
        closed = await writer.close()
        assert (closed.last_entry_id, writer.length) == (len(payloads) - 1, sum(map(len, payloads)))
        stored = setting.bookies["a"].entries
        assert [stored[entry_id][BEFORE_PAYLOAD:] for entry_id in range(len(payloads))] == payloads


async def test_an_empty_stream_adds_nothing(setting_of):
    async def entries():
        for payload in ():
            yield payload

    async with setting_of(1) as setting:
        writer = await setting.create(1, 1, 1)
        await add_stream(writer, entries())
        assert (await writer.close()).last_entry_id == -1


@pytest.mark.parametrize("entry_id", [1, 40, 99])
async def test_an_entry_that_is_not_stored_fails_the_stream(setting_of, entry_id):
    """Also the last ones, whose answers come after everything was sent: closing the ledger would cut it short silently."""

    async def entries():
        for number in range(100):
            yield b"segment %d" % number

    async with setting_of(2) as setting:
        writer = await setting.create(2, 2, 2)
        fail_entry(setting.bookies["b"], entry_id, Status.IO_ERROR)
        with pytest.raises(NotEnoughBookies):
            await add_stream(writer, entries())
