"""Pages of all trackers, open or only stored."""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.limits import NAME_BYTES_MAX
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported, StorageUnavailable

PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_MAX = 10_000
_DECISIONS_PER_TURN = 500
"""Trackers whose visibility is decided at a time; a rule takes microseconds."""
_ROW_NUMBERS_BYTES = 100
_NAMES_BYTES_MAX = 2 * NAME_BYTES_MAX * len("\\u0000") + len('["", ""]')
"""Bytes of the longest token before its base64: both names may be characters that JSON writes in six bytes."""
_TOKEN_BYTES_MAX = (_NAMES_BYTES_MAX + 2) // 3 * 4


@dataclass(frozen=True, slots=True)
class TrackerRow:
    """One tracker, and its host if it is loaded."""

    key: TrackerKey
    host: TrackerHost | None

    @property
    def size_bytes(self) -> int:
        """Approximate bytes of the tracker's row in an answer."""
        names = (*self.key, self.host.owner if self.host else "")
        return _ROW_NUMBERS_BYTES + sum(len(name.encode()) for name in names)


@dataclass(frozen=True, slots=True)
class TrackerPage:
    """Trackers ascending by topic and subscription, and the token of the next page, which is empty on the last page."""

    rows: list[TrackerRow]
    next_token: str


async def tracker_page(
    registry: TrackerRegistry,
    *,
    topic_prefix: str,
    page_size: int,
    page_token: str,
    visible: Callable[[str, str], bool] = lambda _topic, _subscription: True,
) -> TrackerPage:
    """Return one page of the trackers whose topic begins with a prefix.

    A page is shorter than requested if its names would take more than half of the largest answer. The next page begins
    after the last tracker of this one, so trackers that appear or disappear meanwhile shift no rows.

    Args:
        registry: has the trackers.
        topic_prefix: an empty prefix matches every topic.
        page_size: 1 to ``PAGE_SIZE_MAX``; 0 is the default.
        page_token: of the previous page; empty for the first page.
        visible: returns False for the topic and the subscription of a tracker that is left out.
    Raises:
        InvalidInput: the page size is out of range, or the token is not one of a page.
        StorageUnavailable: try again.
    """
    if not 0 <= page_size <= PAGE_SIZE_MAX:
        raise InvalidInput("page_size", page_size, f"give 1 to {PAGE_SIZE_MAX}, or 0 for {PAGE_SIZE_DEFAULT}")
    after = _read_token(page_token) if page_token else None
    size = page_size or PAGE_SIZE_DEFAULT
    candidates = await registry.access.offload(_candidates, await registry.known_keys(), topic_prefix, after)
    found = await _first_visible(candidates, size + 1, visible)
    bytes_left = registry.service_limits.message_bytes_max // 2
    rows: list[TrackerRow] = []
    for key in found[:size]:
        row = TrackerRow(key, registry.find_host(key))
        bytes_left -= row.size_bytes
        if rows and bytes_left < 0:
            break
        rows.append(row)
    return TrackerPage(rows, _token(rows[-1].key) if len(found) > len(rows) else "")


async def is_stored(registry: TrackerRegistry, key: TrackerKey) -> bool | None:
    """Return True if the storage has the tracker, False if not, None if the storage is unavailable.

    There is no retry, because the result is only used in the text of an error.
    """
    try:
        state = await registry.storage.list(*key)
        # The epoch of a deleted tracker stays on record, and only the list of all tells it from an empty one.
        return bool(state.epoch) and (bool(state.entries) or key in await registry.storage.trackers())
    except (SnapshotCorrupt, StorageFormatUnsupported):
        return True  # there is a catalogue, though not one to read
    except StorageUnavailable:
        return None


def _candidates(keys: set[TrackerKey], topic_prefix: str, after: TrackerKey | None) -> list[TrackerKey]:
    """Return the trackers that may be on the page or behind it, ascending."""
    return sorted(key for key in keys if key.topic.startswith(topic_prefix) and (after is None or key > after))


async def _first_visible(keys: list[TrackerKey], count: int, visible: Callable[[str, str], bool]) -> list[TrackerKey]:
    """Return as many keys as wanted that the caller may see. Other tasks get their turn between portions of the rest."""
    found: list[TrackerKey] = []
    for number, key in enumerate(keys, start=1):
        if visible(*key):
            found.append(key)
            if len(found) == count:
                break
        if number % _DECISIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    return found


def _token(last: TrackerKey) -> str:
    return base64.urlsafe_b64encode(json.dumps(last, ensure_ascii=False).encode()).decode()


def _read_token(token: str) -> TrackerKey:
    names: object = None
    if len(token) <= _TOKEN_BYTES_MAX:
        # Lists inside each other end the parser with RecursionError.
        with suppress(binascii.Error, ValueError, RecursionError):
            names = json.loads(base64.urlsafe_b64decode(token.encode()))
    if not isinstance(names, list) or [type(name) for name in names] != [str, str]:
        raise InvalidInput("page_token", token[:64], "give the next_page_token of the answer before")
    return TrackerKey(*names)
