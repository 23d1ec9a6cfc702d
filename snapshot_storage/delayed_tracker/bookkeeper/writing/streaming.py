"""Adds entries that come one after the other, sent together as far as they come together."""

import asyncio
from collections.abc import AsyncIterable

from delayed_tracker.bookkeeper.writing.writer import BYTES_AT_ONCE, ENTRIES_AT_ONCE, LedgerWriter


async def add_stream(writer: LedgerWriter, entries: AsyncIterable[bytes]) -> None:
    """Send entries in their order, and return when enough bookies have stored all of them.

    The first is acknowledged before others are sent, so that a ledger that cannot be written fails at once. At most
    ``BYTES_AT_ONCE`` and one entry are held back.

    Raises: as ``LedgerWriter.add``. ``LedgerWriter.close`` does not: it would close the ledger behind the last entry that
        was answered.
    """
    held: list[bytes] = []
    held_bytes = 0
    last: asyncio.Future[int] | None = None
    async for entry in entries:
        if last is None:
            last = await writer.begin_add(entry)
            await last
            continue
        held.append(entry)
        held_bytes += len(entry)
        if len(held) >= ENTRIES_AT_ONCE or held_bytes >= BYTES_AT_ONCE:
            last = await writer.begin_add_all(held)
            held, held_bytes = [], 0
    if held:
        last = await writer.begin_add_all(held)
    if last is not None:
        # Adds are answered in their order, so that the last answer stands for all.
        await last
