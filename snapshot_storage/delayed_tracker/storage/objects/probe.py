"""Asks a store of objects to refuse what it must refuse: without that, two owners could write one catalogue."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.objects.object_store import Objects
from delayed_tracker.storage.shared.document_store import Stale

Sleep = Callable[[float], Awaitable[None]]


async def require_conditional_puts(objects: Objects, key: str, *, sleep: Sleep = asyncio.sleep) -> None:
    """Write an object of its own, and verify that stale puts are refused and that a read shows the last good one.

    Args:
        objects: the store, started.
        key: no object has it; its object is deleted at the end.
        sleep: waits, in seconds, where the store takes writes of one key only now and then.
    Raises:
        StorageFormatUnsupported: the store is no place for a catalogue; the message says why.
        StorageUnavailable: it cannot answer now.
    """

    async def put(content: bytes, expected: str | None) -> str:
        if objects.min_interval_s:
            await sleep(objects.min_interval_s)
        return await objects.put_if(key, content, expected)

    try:
        first = await objects.put_if(key, b"first", None)
        await _require_refusal(put(b"again", None), "replaces an object although it was asked to create one")
        second = await put(b"second", first)
        await _require_refusal(put(b"stale", first), "takes a put that expects an older version of the object")
        found = await objects.get(key)
        if found is None or (found.content, found.version) != (b"second", second):
            raise _unfit("does not show the last version of an object to a reader")
    except Stale as error:
        raise _unfit("refuses a put that expects the present version of the object") from error
    finally:
        # A stray object is harmless, and must not hide why the store was refused.
        with contextlib.suppress(StorageUnavailable):
            await objects.delete(key)


async def _require_refusal(put: Awaitable[str], fault: str) -> None:
    try:
        await put
    except Stale:
        return
    raise _unfit(fault)


def _unfit(fault: str) -> StorageFormatUnsupported:
    return StorageFormatUnsupported(
        f"the object store {fault}, so that two services could write one catalogue; use a store with conditional puts "
        "(If-Match and If-None-Match), and no proxy or cache that drops them"
    )
