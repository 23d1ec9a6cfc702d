"""Command ``delayed-tracker ledgers import``: copies topics of any source to local ledgers."""

import errno
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from delayed_tracker.cli.ledger_source import LedgersNotWritten, Source, opened
from delayed_tracker.cli.ledgers.all_topics import open_all_topics
from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import print_json, progress, say, say_first, show, table
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, LedgerError
from delayed_tracker.ledger.local.files.layout import LedgerDirectory
from delayed_tracker.ledger.local.importing import ImportReport, import_topic, require_all_ledgers
from delayed_tracker.ledger.source_url import parse_source_url
from delayed_tracker.ledger.topic.combined_source import unclaimed_of

_ANOTHER: Final = "give a directory that can be written to"
_WRONG_PLACE: Final = {
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Errors of a place that this user, or any user, cannot write to; other errors are the disk's."""


def import_topics(
    *,
    source: Source,
    into: Annotated[
        Path,
        typer.Option(
            "--into",
            help="Directory of local ledgers; made if the directory above it is there.",
            metavar="DIR",
            file_okay=False,
            callback=reject_tilde_path,
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Only this topic; may be repeated; default: all.", metavar="TOPIC"),
    ] = None,
    on_error: Annotated[
        ErrorPolicy,
        typer.Option("--on-error", help="What to do with unreadable entries and, without --topic, unreadable topics."),
    ] = ErrorPolicy.FAIL,
    as_json: AsJson = False,
) -> None:
    """Copy topics to local ledgers: payloads and positions stay the same. Ledgers that were copied before are skipped.

    Example: delayed-tracker ledgers import --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed --into ledgers
    """
    _require_parent(into)
    with _writable(into):
        _require_place(into, source)
    reports: dict[str, ImportReport] = {}
    with opened(source, on_error=on_error) as queries:
        # All topics are opened before the first is copied, so that a broken one is found at once.
        logs, unreadable = (
            ([queries.source.topic_log(name) for name in topic], {}) if topic else open_all_topics(queries)
        )
        unclaimed = [] if topic else list(unclaimed_of(queries.source))
        if on_error is ErrorPolicy.FAIL:
            _refuse(unreadable)
            if unclaimed:
                raise EntriesUnreadable(unclaimed)
            for log in logs:
                require_all_ledgers(log)
        for log in logs:
            with _writable(into), progress(f"importing {log.name}", "entries") as shown:
                reports[str(log.name)] = import_topic(
                    log,
                    into,
                    now_ms=time.time_ns() // 1_000_000,
                    on_error=on_error,
                    progress=shown,
                )
    if as_json:
        print_json(
            {
                "topics": [_document(name, report) for name, report in reports.items()],
                "unreadable": [{"topic": name, "problem": error.message} for name, error in unreadable.items()],
                "unclaimed": unclaimed,
            }
        )
        return
    numbers = ("ledgers copied", "entries copied", "there already", "bad entries")
    rows = table(f"imported into {into}", "topic", *numbers, numbers=numbers)
    for name, report in reports.items():
        rows.add_row(
            name,
            str(len(report.copied)),
            str(report.entry_count),
            str(len(report.present)),
            str(sum(bad.entry_count for bad in report.bad_entries)),
        )
    show(rows)
    for name, error in unreadable.items():
        say(f"unreadable: {name}: {error.message}")
    for bad in unclaimed:
        say(f"of no topic: {bad}")
    say_first("bad", [bad for report in reports.values() for bad in report.bad_entries])


def _require_parent(into: Path) -> None:
    try:
        is_there = into.parent.is_dir()
    except OSError as error:
        raise InvalidInput("--into", str(into), f"{error.strerror}; {_ANOTHER}") from error
    if not is_there:
        raise InvalidInput("--into", str(into), f"make the directory {into.parent} first")


def _require_place(into: Path, sources: Sequence[str]) -> None:
    """Refuse a directory with other content: the copy would be written among the files of a bookie, for example."""
    if not into.exists():
        return
    for url in map(parse_source_url, sources):
        # A bookie's logs may be in a directory of its ledger directory.
        if any(Path(path, inner).resolve() == into.resolve() for path in url.paths for inner in ("", "current")):
            raise InvalidInput("--into", str(into), "a source is stored there: give another directory")
    place = LedgerDirectory(into)
    own = {place.topics_path, place.ids, place.ids_lock}
    other = next((path.name for path in sorted(into.iterdir()) if path not in own), None)
    if other is not None and not place.topics_path.is_dir():
        raise InvalidInput(
            "--into", str(into), f"give a directory of local ledgers, an empty or a new one: this has {other} in it"
        )


@contextmanager
def _writable(into: Path) -> Iterator[None]:
    """Convert the OSError of a failed write to an error of its own; errors of reading the source pass.

    Raises:
        InvalidInput: the place cannot be written to; names the option and the remedy.
        LedgersNotWritten: the disk is full, or fails.
    """
    try:
        yield
    except OSError as error:
        # Errors of open files have no file name, and a source's files are mapped. Errors of bucket clients have no
        # errno.
        is_named = error.filename is not None
        if error.errno is None or (is_named and not Path(error.filename).is_relative_to(into)):
            raise
        if error.errno in _WRONG_PLACE:
            raise InvalidInput("--into", str(into), f"{error.strerror}; {_ANOTHER}") from error
        raise LedgersNotWritten("--into", str(into), error) from error


def _refuse(unreadable: Mapping[str, LedgerError]) -> None:
    for name, error in unreadable.items():
        more = f" (and {len(unreadable) - 1} topics more)" if len(unreadable) > 1 else ""
        raise LedgerError(
            f"{name} cannot be read{more}: {error.message}; nothing was copied: give --on-error skip to go on without "
            "it, or name the others by --topic",
            metadata=error.metadata,
        ) from error


def _document(name: str, report: ImportReport) -> dict[str, object]:
    return {
        "topic": name,
        "copied_ledger_ids": report.copied,
        "present_ledger_ids": report.present,
        "entry_count": report.entry_count,
        "bad_entries": report.bad_entries,
    }
