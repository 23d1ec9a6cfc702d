"""Tests of time lines as text."""

import os
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from delayed_tracker.cli.demo.drawing import DAY_MS, HOUR_MS, MINUTE_MS, histogram, shades, time_axis, time_line


def test_a_label_stands_where_its_moment_is_drawn():
    """Axis and line use the same scale."""
    axis = time_axis(60)
    for label, moment_ms in (("|1h", HOUR_MS), ("|1d", DAY_MS), ("|30d", 30 * DAY_MS)):
        assert time_line(np.array([moment_ms]), 60, " #").index("#") == axis.index(label)


def test_every_wait_is_on_the_line():
    """Waits shorter or longer than the axis are drawn at its ends."""
    assert time_line(np.array([0, 1_000 * DAY_MS]), 10, " #") == "#        #"
    assert time_line(np.empty(0, np.int64), 4, " #") == "    "
    assert time_line(np.array([MINUTE_MS]), 4, " #") == "#   "


@pytest.mark.parametrize("most", [1, 7, 8, 1_000])
def test_a_single_deadline_is_visible_beside_many(most):
    """One deadline beside a thousand is visible."""
    drawn = histogram([0, 1, most], " ▁▂▃▄▅▆▇█")
    assert drawn[0] == " "
    assert drawn[1] != " "
    assert drawn[2] == "█"


def test_consoles_without_unicode_get_letters():
    """Consoles without Unicode get ASCII characters."""
    with Path(os.devnull).open("w", encoding="ascii") as stream:
        assert shades(Console(file=stream)).isascii()
    with Path(os.devnull).open("w", encoding="utf-8") as stream:
        assert "█" in shades(Console(file=stream))
