"""Adds entries that come one after the other, sent together as far as they come together."""

from collections.abc import AsyncIterable

from delayed_tracker.bookkeeper.writing.writer import BYTES_AT_ONCE, ENTRIES_AT_ONCE, LedgerWriter


async def add_stream(writer: LedgerWriter, entries: AsyncIterable[bytes]) -> None:
    """Send entries in their order, and return when the last one is sent; the writer's close waits for the answers.

    The first is acknowledged before others are sent, so that a ledger that cannot be written fails at once. At most
    ``BYTES_AT_ONCE`` and one entry are held back.

    Raises: as ``LedgerWriter.add``.
    """
    held: list[bytes] = []
    held_bytes = 0
    is_first = True
    async for entry in entries:
        if is_first:
            await writer.add(entry)
            is_first = False
            continue
        held.append(entry)
        held_bytes += len(entry)
        if len(held) >= ENTRIES_AT_ONCE or held_bytes >= BYTES_AT_ONCE:
            await writer.begin_add_all(held)
            held, held_bytes = [], 0
    if held:
        await writer.begin_add_all(held)
