"""Output of commands: tables for people, JSON for machines, progress during long work.

Answers go to stdout; everything else (progress, log lines, errors) goes to stderr, so that answers can be piped. Names
that users chose may contain control characters: they are always printed as escapes.
"""

import dataclasses
import enum
import errno
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, TextIO

from rich import progress as bars
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from delayed_tracker.ledger.progress import Progress
from delayed_tracker.service.telemetry.printable import printable, printable_json, printable_lines

PLAIN_WIDTH = 140
"""Columns of a line if the output is not a terminal."""
_WIDTH_MAX = 100_000
"""Columns of a line while a table is measured; no table needs as many."""
LISTED_FIRST = 20
"""Lines of a list that are printed without --json, at most."""
LOG_LINE_EVERY_S = 10.0
"""Without a terminal, seconds between two progress lines at least; printed only if the work has advanced."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def answer_console(*, markup: bool = False) -> Console:
    """Return the console for answers. With markup, the printed text must not contain names that users chose."""
    return _console(stderr=False, markup=markup)


def notice_console() -> Console:
    """Return the console for progress, log lines and errors."""
    return _console(stderr=True, markup=False)


def _console(*, stderr: bool, markup: bool) -> Console:
    stream = sys.stderr if stderr else _stdout()
    width = None if stream.isatty() else PLAIN_WIDTH
    return _PrintableConsole(stderr=stderr, width=width, highlight=False, soft_wrap=False, markup=markup, emoji=False)


class _PrintableConsole(Console):
    """Console that prints control characters as escapes: in text before its layout, and in other renderables."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable_lines(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))


def _stdout() -> TextIO:
    stream: TextIO | None = sys.stdout
    if stream is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return stream


def jsonable(value: object) -> Json:
    """Return frozen values as JSON: dataclasses and named tuples become objects, enum members their values."""
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return jsonable(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: jsonable(part) for name, part in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(part) for key, part in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence):
        return [jsonable(part) for part in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    stream = _stdout()
    stream.write(_document(value) + "\n")
    stream.flush()


def print_json_in_parts(fields: Mapping[str, object], more: Callable[[], Mapping[str, object]]) -> None:
    """Print one JSON object: ``fields`` are on stdout when ``more`` is called, and the fields that it returns follow.

    Neither may be empty. If ``more`` raises, the object ends with ``fields``.
    """
    stream = _stdout()
    stream.write(_document(fields).removesuffix("\n}"))
    stream.flush()
    end = "\n}"
    try:
        end = "," + _document(more()).removeprefix("{")
    finally:
        stream.write(end + "\n")
        stream.flush()


def flush_answer() -> None:
    """Write out what was printed on stdout. Raises OSError if it cannot be written."""
    _stdout().flush()


def _document(value: object) -> str:
    return printable_json(json.dumps(jsonable(value), indent=2, ensure_ascii=_escapes_needed()))


def print_json_lines(values: Iterable[object]) -> None:
    """Print JSON documents on stdout, one a line."""
    stream = _stdout()
    escaped = _escapes_needed()
    stream.writelines(printable_json(json.dumps(jsonable(value), ensure_ascii=escaped)) + "\n" for value in values)
    stream.flush()


def _escapes_needed() -> bool:
    """Return True if stdout cannot encode all characters of names."""
    return (sys.stdout.encoding or "").lower() not in {"utf-8", "utf8"}


def say(*sentences: str) -> None:
    """Print sentences on stdout, each on one line without wrapping, so that piped output can be searched."""
    answer_console().print("\n".join(map(printable, sentences)), soft_wrap=True)


def say_first(label: str, items: Sequence[object], *, rest: str = "--json lists all") -> None:
    """Print the first ``LISTED_FIRST`` items, one a line after the label, and the number of the others.

    Args:
        label: what the items are, such as "bad"; printed before each.
        items: anything with a readable ``str``.
        rest: where the others are.
    """
    for item in items[:LISTED_FIRST]:
        say(f"{label}: {item}")
    if len(items) > LISTED_FIRST:
        say(f"... and {len(items) - LISTED_FIRST} more; {rest}")


def show(rows: Table) -> None:
    """Print a table on stdout, below its title; on a terminal that is too narrow, print one value a line."""
    console = answer_console()
    if rows.title:
        console.print(printable(str(rows.title)), style="bold", soft_wrap=True)
        rows.title = None
    needed = Measurement.get(console, console.options.update(width=_WIDTH_MAX), rows)
    if not console.is_terminal:
        console.width = max(console.width, needed.maximum)
    if needed.minimum <= console.width:
        console.print(rows)
        return
    for number, cells in enumerate(zip(*(column.cells for column in rows.columns), strict=True)):
        if len(cells) == len(("what", "value")):
            say(f"{cells[0]}: {cells[1]}")
            continue
        if number:
            say("")
        for column, cell in zip(rows.columns, cells, strict=True):
            if column.header:
                say(f"{column.header}: {cell}")


def table(title: str, *columns: str, numbers: Sequence[str] = ()) -> Table:
    """Return an empty table; columns named in ``numbers`` are aligned to the right."""
    made = _OneLineCells(title=printable(title), title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


class _OneLineCells(Table):
    """Table that also prints line breaks in cells as escapes, so that no cell looks like another row."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*(printable(cell) if isinstance(cell, str) else cell for cell in cells), **options)


def instant(ms: int | None) -> str:
    """Return a wall-clock time in readable form, in UTC; "-" if there is none."""
    if ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        # After the year 9999: deadlines go up to 2^63-1 ms.
        return f"{ms} ms"


def duration(ms: float) -> str:
    """Return a time span in readable form: "340 ms", "1.5 s", "12 min", "3.0 h", "5.2 d"."""
    span = abs(ms)
    for unit, unit_ms, digits in (("d", 86_400_000, 1), ("h", 3_600_000, 1), ("min", 60_000, 1), ("s", 1_000, 1)):
        if span >= unit_ms:
            return f"{ms / unit_ms:.{digits}f} {unit}"
    return f"{ms:.0f} ms"


def counted(count: int, thing: str) -> str:
    """Return a number of things: "1 tracker", "2 trackers"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def size(byte_count: int) -> str:
    """Return a number of bytes in readable form."""
    amount = float(byte_count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError("the last unit takes any amount")


_read_by_machine: ContextVar[bool] = ContextVar("read_by_machine", default=False)


@contextmanager
def for_machines(wanted: bool) -> Iterator[None]:
    """Print no progress within the block if ``wanted``: with ``--json``, stderr contains the error and nothing else."""
    before = _read_by_machine.set(wanted)
    try:
        yield
    finally:
        _read_by_machine.reset(before)


def progress_shown() -> bool:
    """Return True if long work prints its progress."""
    return not _read_by_machine.get()


def notice(sentence: str) -> None:
    """Print on stderr what is being done; nothing with ``--json``, whose answer says it."""
    if progress_shown():
        notice_console().print(sentence, soft_wrap=True)


@contextmanager
def progress(title: str, unit: str) -> Iterator[Progress]:
    """Show progress: a bar on a terminal, a log line now and then elsewhere; nothing with ``--json``."""
    if not progress_shown():
        yield lambda _done, _total: None
        return
    console = notice_console()
    if not console.is_terminal:
        yield _LogLines(console, title, unit)
        return
    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn(unit),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(printable(title), total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show


class _LogLines:
    """Progress without a terminal: a line at most every ``LOG_LINE_EVERY_S``, and one at the end."""

    def __init__(self, console: Console, title: str, unit: str) -> None:
        self._console = console
        self._title = printable(title)
        self._unit = unit
        self._said_at = monotonic()
        self._said_done = 0

    def __call__(self, done: int, total: int) -> None:
        now = monotonic()
        news = done != self._said_done
        if news and (done >= total or now - self._said_at >= LOG_LINE_EVERY_S):
            self._said_at = now
            self._said_done = done
            self._console.print(f"{self._title}: {done} of {total} {self._unit}")
