"""Tests of the timer of a job's stages."""

import pytest

from delayed_tracker.spark.stage_timer import StageTimer


def test_a_repeated_stage_adds_to_its_time():
    """Each begin of a stage is reported; its seconds are those of all runs together."""
    reported: list[str] = []
    stages = StageTimer(reported.append)
    with stages.of("plan"):
        pass
    first = stages.seconds["plan"]
    with stages.of("stage"):
        pass
    with stages.of("plan"):
        pass
    assert reported == ["plan", "stage", "plan"]
    assert list(stages.seconds) == ["plan", "stage"]
    assert stages.seconds["plan"] > first


def test_a_stage_that_raises_is_measured():
    """The time until an error counts, and the error passes."""
    stages = StageTimer(None)
    with pytest.raises(OSError, match="gone"), stages.of("read"):
        raise OSError("gone")
    assert stages.seconds["read"] > 0
