"""Names of trackers in stores whose names are limited: in paths of files, keys of objects, nodes of ZooKeeper.

A name has letters, digits, ``_``, ``.`` and ``-``; any other byte of the UTF-8 text is ``=XX``. A comma stands between
topic and cursor. A name that would be too long ends in a hash, and its tracker is known from the document alone. Two
hexadecimal digits of a hash come before each name, so that no folder has all of them.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import SnapshotPlaces

NAME_CHARACTERS_MAX: Final = 200

_KEPT_CHARACTERS: Final = 80
_HASHED: Final = "=h"
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9_.-]")
_ESCAPED: Final = re.compile(r"=([0-9A-F]{2})")


def tracker_path(topic: str, cursor: str) -> str:
    """Return the name of a tracker with its folder: ``HH/NAME``, of 203 characters at most.

    Raises:
        InvalidInput: a text that UTF-8 does not know.
    """
    name = f"{_escaped('topic', topic)},{_escaped('cursor', cursor)}"
    digest = hashlib.sha256(name.encode()).hexdigest()
    if len(name) > NAME_CHARACTERS_MAX:
        name = f"{name[:_KEPT_CHARACTERS]}{_HASHED}{digest[:32]}"
    return f"{digest[:2]}/{name}"


def tracker_of(path: str) -> tuple[str, str] | None:
    """Return the (topic, cursor) that ``path`` names; None if it ends in a hash, or is no name of a tracker."""
    tracker = tracker_named(path.rpartition("/")[2])
    return tracker if tracker is not None and tracker_path(*tracker) == path else None


def tracker_named(name: str) -> tuple[str, str] | None:
    """Return the (topic, cursor) of a name without its folder; None if it ends in a hash, or is no name of a tracker."""
    topic, comma, cursor = name.partition(",")
    if not comma or _HASHED in name:
        return None
    try:
        tracker = _text(topic), _text(cursor)
    except UnicodeDecodeError:
        return None
    return tracker if tracker_path(*tracker).rpartition("/")[2] == name else None


def places_of(paths: Iterable[str], known: Iterable[tuple[str, str]]) -> SnapshotPlaces:
    """Return the trackers of names that have snapshots.

    Args:
        paths: names with their folders.
        known: trackers that the catalogue knows, by which hashed names are told.
    """
    trackers, nameless = set(), []
    by_path = {tracker_path(*tracker): tracker for tracker in known}
    for path in paths:
        tracker = by_path.get(path) or tracker_of(path)
        if tracker is None:
            nameless.append(path)
        else:
            trackers.add(tracker)
    return SnapshotPlaces(frozenset(trackers), tuple(sorted(nameless)))


def _escaped(field: str, text: str) -> str:
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(field, text, "half of a surrogate pair is no text; send valid unicode") from error
    return _UNSAFE.sub(lambda found: b"=%02X" % found[0][0], octets).decode()


def _text(escaped: str) -> str:
    octets = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), escaped).encode("latin-1", "replace")
    return octets.decode()
