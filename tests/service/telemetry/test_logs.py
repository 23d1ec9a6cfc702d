"""Log lines: one format for the service and for libraries."""

import io
import json
import logging

import grpc
import pytest
import structlog

from delayed_tracker.service.telemetry.log_size import LINE_BYTES_MAX
from delayed_tracker.service.telemetry.logs import configure_logging
from tests.service.harness.rpc import add

pytestmark = pytest.mark.usefixtures("unchanged_logging")


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
    """A traceback is a field of its line."""
    stream = io.StringIO()
    configure_logging("json", "info", stream=stream)
    try:
        int("broken")
    except ValueError:
        structlog.stdlib.get_logger("ours").exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_type"] == "ValueError"


def test_console_lines_are_plain_text_without_a_terminal():
    """A redirected log has no colour codes."""
    stream = io.StringIO()
    configure_logging("console", "info", stream=stream)
    structlog.stdlib.get_logger("ours").info("ready", port=7650)
    (line,) = stream.getvalue().splitlines()
    assert "ready" in line
    assert "port=7650" in line
    assert "\x1b" not in line


def test_lines_below_the_level_are_dropped():
    """The level applies to the service and to libraries; lines of noisy libraries below a warning are dropped."""
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


def written(written_log, log_format, tell):
    """Return the lines that are written for one event."""
    stream = written_log(log_format, "debug")
    tell(structlog.stdlib.get_logger("ours"))
    return stream.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_values_of_variables(written_log, log_format):
    """The log has the place and the message of an exception only, since variables may hold a caller's credentials."""

    def fails(credentials: str) -> None:
        raise ValueError(f"{len(credentials)} letters")

    def tell(log):
        try:
            fails("-".join(["hush"] * 2))
        except ValueError:
            log.exception("failed")

    lines = written(written_log, log_format, tell)
    assert "9 letters" in lines
    assert "test_logs.py" in lines
    assert "hush-hush" not in lines


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"text": "x" * 1_000_000}, id="a text"),
        pytest.param({"names": ["n" * 50] * 10_000}, id="a list"),
        pytest.param({f"field{number}": "y" * 4_000 for number in range(20)}, id="many fields"),
        pytest.param({"text": "\x1b" * 100_000}, id="escapes"),
        pytest.param({"message": add(1, *((1, 1, entry) for entry in range(20_000)))}, id="a message"),
    ],
)
def test_no_line_is_longer_than_its_bound(written_log, log_format, fields):
    """The longest fields lose their middle, and the line has the number of missing bytes."""
    line = written(written_log, log_format, lambda log: log.warning("large", topic="orders", **fields))
    assert len(line.encode()) <= LINE_BYTES_MAX + 1
    assert line.count("\n") == 1
    assert "left_out_bytes" in line
    assert "orders" in line


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_record_with_an_exception_has_the_same_bound(written_log, log_format):
    """A message of a megabyte and a hundred causes are cut, in lines of libraries, too."""

    def fails(depth: int) -> None:
        try:
            if depth:
                fails(depth - 1)
        finally:
            raise ValueError("m" * 10_000)

    def tell(_log):
        try:
            fails(100)
        except ValueError:
            logging.getLogger("theirs").exception("x" * 100_000)

    text = written(written_log, log_format, tell)
    assert len(text.encode()) <= LINE_BYTES_MAX + 1
    assert "left_out_bytes" in text


def test_ordinary_lines_are_not_cut(written_log):
    """A short line has no field about sizes, and its values keep their types."""
    line = written(written_log, "json", lambda log: log.info("ready", ports=[1, 2], topic="t" * 1_000, slow=True))
    row = json.loads(line)
    assert (row["ports"], row["topic"], row["slow"]) == ([1, 2], "t" * 1_000, True)
    assert "left_out_bytes" not in row


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J", "\x9b31m", "a\rb", "a\nb", "\u202egnp", "\u2066x", "\x7f", "\u2028", "\x00"]
)
def test_the_console_shows_control_characters_as_escapes(written_log, hostile):
    """No field of a line can clear the screen, begin a line of its own or reverse text."""

    def tell(log):
        event = f"event {hostile}"
        log.info(event, topic=hostile, names=[hostile], **{f"key{hostile}": 1})

    line = written(written_log, "console", tell)
    assert line.endswith("\n")
    assert line[:-1].isprintable()


def test_the_console_shows_an_exceptions_message_escaped_and_indented(written_log):
    """No text that an exception quotes looks like a line of its own."""

    def tell(log):
        log.error("failed", exc_info=ValueError("\x1b]0;title\x07\n2026-01-01 [info] forged"))

    _, *more = written(written_log, "console", tell).splitlines()
    assert all(line.isprintable() and line.startswith("    ") for line in more)


def test_gRPC_tells_nothing_about_clients_that_left(written_log):  # its name
    """An answer that could not be sent is not logged; other errors of gRPC are."""
    stream = written_log("json", "debug")
    logger = logging.getLogger("grpc._cython.cygrpc")
    for error in (grpc.aio.InternalError("Failed execute_batch"), ValueError("a bug")):
        logger.error("raised by servicer method", exc_info=error)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_type"] == "ValueError"


def test_a_line_that_cannot_be_made_is_told_without_its_arguments(written_log):
    """A line that cannot be formatted is replaced by one without the arguments, which Python would print."""
    stream = written_log("json", "info")
    logging.getLogger("theirs").error("%d things", "secret")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["log line lost: TypeError"]
