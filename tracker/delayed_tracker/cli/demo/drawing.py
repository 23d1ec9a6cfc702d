"""Draws time lines as text: the number of deadlines in each interval, from minutes to months, one line a bucket."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from delayed_tracker.core.values.columns import Int64Array

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_TICKS = (
    ("1min", MINUTE_MS),
    ("10min", 10 * MINUTE_MS),
    ("1h", HOUR_MS),
    ("6h", 6 * HOUR_MS),
    ("1d", DAY_MS),
    ("1w", 7 * DAY_MS),
    ("30d", 30 * DAY_MS),
    ("90d", 90 * DAY_MS),
)
_FIRST_MS = MINUTE_MS
_LAST_MS = 100 * DAY_MS

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LETTERS = " .:-=+*#@"


def shades(console: Console) -> str:
    """Return the characters from none to most that the console's encoding supports."""
    return _BLOCKS if console.encoding.lower().startswith("utf") else _LETTERS


def time_axis(width: int) -> str:
    """Return the labels of a logarithmic time axis; each starts at its time."""
    line = [" "] * width
    free_from = 0
    for label, moment_ms in _TICKS:
        column = int(_column(np.array([moment_ms]), width)[0])
        text = f"|{label}"
        if column >= free_from and column + len(text) <= width:
            line[column : column + len(text)] = text
            free_from = column + len(text) + 1
    return "".join(line)


def time_line(wait_ms: Int64Array, width: int, characters: str) -> str:
    """Return one character for each interval of the axis, darker for more waits that end in it."""
    counts = np.bincount(_column(wait_ms, width), minlength=width)
    return histogram(counts.tolist(), characters)


def histogram(counts: Sequence[int], characters: str) -> str:
    """Return one character a count, by its share of the greatest; a count above 0 is always visible."""
    most = max(counts, default=0)
    if most == 0:
        return characters[0] * len(counts)
    steps = len(characters) - 1
    return "".join(characters[-(-count * steps // most)] for count in counts)


def _column(wait_ms: Int64Array, width: int) -> Int64Array:
    clipped = np.clip(wait_ms, _FIRST_MS, _LAST_MS).astype(np.float64)
    share = np.log(clipped / _FIRST_MS) / np.log(_LAST_MS / _FIRST_MS)
    columns: Int64Array = np.minimum((share * width).astype(np.int64), width - 1)
    return columns
