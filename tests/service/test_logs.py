"""Log lines: one form for ours and for libraries'."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tracker.service.logs import configure_logging


@pytest.fixture(autouse=True)
def unchanged_logging() -> Iterator[None]:
    """Whatever a test configures is undone after it."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_lines_are_objects_with_event_level_time_and_fields():
    """Each line parses on its own; times are ISO 8601 in UTC."""
    stream = io.StringIO()
    configure_logging("json", "info", stream=stream)
    structlog.stdlib.get_logger("ours").info("ready", port=7650)
    logging.getLogger("theirs").warning("slow %s", "disk")
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert ours | {"timestamp": ""} == {
        "event": "ready",
        "level": "info",
        "logger": "ours",
        "port": 7650,
        "timestamp": "",
    }
    assert ours["timestamp"].endswith("Z")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("slow disk", "warning", "theirs")


def test_exceptions_stay_on_their_line_in_json():
    """A traceback is a field, not lines of its own."""
    stream = io.StringIO()
    configure_logging("json", "info", stream=stream)
    try:
        int("broken")
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_type"] == "ValueError"


def test_console_lines_are_plain_text_without_a_terminal():
    """A redirected log holds no colour codes."""
    stream = io.StringIO()
    configure_logging("console", "info", stream=stream)
    structlog.stdlib.get_logger("ours").info("ready", port=7650)
    (line,) = stream.getvalue().splitlines()
    assert "ready" in line
    assert "port=7650" in line
    assert "\x1b" not in line


def test_lines_below_the_level_are_dropped():
    """The level holds for our lines and for libraries'; chatty libraries are held to warnings."""
    stream = io.StringIO()
    configure_logging("console", "info", stream=stream)
    structlog.stdlib.get_logger("ours").debug("hidden")
    logging.getLogger("theirs").debug("hidden")
    logging.getLogger("uvicorn.error").info("hidden")
    assert stream.getvalue() == ""
    logging.getLogger("uvicorn.error").error("shown")
    assert "shown" in stream.getvalue()


def test_configuring_again_replaces_the_former_setup():
    """No line is written twice."""
    first, second = io.StringIO(), io.StringIO()
    configure_logging("console", "info", stream=first)
    configure_logging("json", "error", stream=second)
    structlog.stdlib.get_logger("ours").error("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1
