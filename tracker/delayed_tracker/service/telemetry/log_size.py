"""Bounds one log line: the longest fields lose their middle, and one field has the number of lost bytes."""

import json
from collections.abc import Mapping
from typing import Final

from structlog.typing import EventDict

LINE_BYTES_MAX: Final = 4_096
"""Maximum of one line, with its traceback."""
LEFT_OUT_BYTES: Final = "left_out_bytes"
"""Field of a line that was cut: the number of bytes that are missing from it."""
_FIELD_BYTES: Final = len('"": , ')
"""Bytes of a field beside its name and its value."""
_RESERVED_BYTES: Final = len(f'"{LEFT_OUT_BYTES}": 1000000000, ') + len("{}")

_Plain = None | bool | int | float | str | list["_Plain"] | dict[str, "_Plain"]


def bound_line(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """Cut a line to ``LINE_BYTES_MAX``: the last processor of structlog before the renderer, for both formats.

    Sizes are those of ASCII JSON; on the console a field is never longer. Short fields are not changed.
    """
    plain = {key: _plain(value) for key, value in fields.items()}
    sizes = {key: _size(value) for key, value in plain.items()}
    names_bytes = sum(len(key) + _FIELD_BYTES for key in plain)
    if sum(sizes.values()) + names_bytes + len("{}") <= LINE_BYTES_MAX:
        return plain
    value_bytes_max = _level(sizes, LINE_BYTES_MAX - names_bytes - _RESERVED_BYTES)
    cut = {
        key: value if sizes[key] <= value_bytes_max else _cut(value, value_bytes_max) for key, value in plain.items()
    }
    return cut | {LEFT_OUT_BYTES: sum(sizes.values()) - sum(map(_size, cut.values()))}


def _plain(value: object) -> _Plain:
    """Return a value as JSON types; a value without a JSON type becomes its representation."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(part) for part in value]
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case _:
            return repr(value)


def _size(value: _Plain) -> int:
    return len(json.dumps(value))


def _level(sizes: Mapping[str, int], bytes_max: int) -> int:
    """Return the size to which longer values must be cut, so that the sum of all is at most ``bytes_max``."""
    remaining_bytes = bytes_max
    ascending = sorted(sizes.values())
    for place, size in enumerate(ascending):
        share = remaining_bytes // (len(ascending) - place)
        if size > share:
            return max(share, 0)
        remaining_bytes -= size
    return bytes_max


def _cut(value: _Plain, bytes_max: int) -> str:
    """Return a text without its middle. A container becomes JSON text first."""
    text = value if isinstance(value, str) else json.dumps(value)
    kept = min(len(text), bytes_max)
    while kept:
        head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
        cut = f"{head} ... {tail}"
        if _size(cut) <= bytes_max:
            return cut
        kept = kept * 3 // 4
    return ""
