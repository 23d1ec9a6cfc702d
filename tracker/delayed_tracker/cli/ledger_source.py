"""Opens the sources of commands about ledgers: one or several, together."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from delayed_tracker.cli.terminal.options import VARIABLE_OF_OPTION
from delayed_tracker.cli.terminal.output import progress
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.files.full_disk import FULL_DISK
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.offload.blob_store import first_line
from delayed_tracker.ledger.queries.topic_queries import TopicQueries
from delayed_tracker.ledger.source_url import open_sources, split_sources

SOURCE_VARIABLE: Final = VARIABLE_OF_OPTION["--source"]


def sources_given(context: typer.Context, param: typer.CallbackParam, value: list[str]) -> list[str]:
    """Return the sources of an option; the option's callback. URLs from the environment are split at spaces.

    Raises:
        InvalidInput: a path in the environment contains a space.
    """
    origin = context.get_parameter_source(param.name or "")
    if origin is not None and origin.name == "ENVIRONMENT":
        return split_sources(os.environ[SOURCE_VARIABLE])
    return value


Source = Annotated[
    list[str],
    typer.Option(
        "--source",
        envvar=SOURCE_VARIABLE,
        callback=sources_given,
        help="Where the ledgers are: bookkeeper+file:DIR[,DIR...]?metadata=DUMP (bookies' disks), "
        "bookkeeper+zk:HOST:PORT,HOST:PORT/ROOT (a running cluster), "
        "offload+mapfile:DIR[?metadata=DUMP], offload+blob:s3://BUCKET[?metadata=DUMP] (or gs://, az://, file://), "
        "ledger:DIR (local ledgers). May be repeated: each ledger is read from the first source that has all of it.",
        metavar="URL",
    ),
]
OnError = Annotated[ErrorPolicy, typer.Option("--on-error", help="What to do with entries that cannot be read.")]

READABLE_FILES: Final = "name files that can be read"
"""Remedy for unreadable files of a source, and of its metadata."""


class SourceUnreadable(DelayedTrackerError):
    """A source of ledgers cannot be read for now. Check the object in the message, and try again."""

    reason = "SOURCE_UNREADABLE"


class LedgersNotWritten(DelayedTrackerError):
    """The disk does not accept local ledgers: it is full, or fails. Check the disk, and run the command again."""

    reason = "LEDGERS_NOT_WRITTEN"

    def __init__(self, option: str, value: str, error: OSError) -> None:
        super().__init__(
            f"{option}: {value!r} cannot be written: {error.strerror}; {_DISK_REMEDIES.get(error.errno or 0, _SEE_TO_IT)}",
            metadata={"field": option},
        )


_SEE_TO_IT: Final = "repair the disk, or give a directory on another disk"
_MAKE_ROOM: Final = "make room for what is written, and run it again"
_DISK_REMEDIES: Final = {errno.EIO: _SEE_TO_IT, **dict.fromkeys(FULL_DISK, _MAKE_ROOM)}


@contextmanager
def translate_disk_errors(option: str, value: str) -> Iterator[None]:
    """Convert the OSError of a full or failing disk to an error of its own.

    Args:
        option: the option that names the directory which is written to.
        value: the value of the option.
    Raises:
        LedgersNotWritten: the disk is full, or fails.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_REMEDIES:
            raise
        raise LedgersNotWritten(option, value, error) from error


@contextmanager
def opened(source: list[str], *, on_error: ErrorPolicy = ErrorPolicy.FAIL) -> Iterator[TopicQueries]:
    """Open sources of ledgers for queries; shows progress while they open. Print answers after the block, not inside.

    Args:
        source: URLs.
        on_error: the argument of :func:`~delayed_tracker.ledger.source_url.open_source`.
    Raises:
        LedgerError: files or metadata are damaged or incomplete.
        InvalidInput: a URL names no source, or a file cannot be read.
        SourceUnreadable: a bucket cannot be read.
    """
    with translate_file_errors(" ".join(source), READABLE_FILES):
        with progress("looking through files", "bytes") as looked:
            ledgers = open_sources(source, progress=looked, on_error=on_error)
        with ledgers:
            yield TopicQueries(ledgers)


@contextmanager
def translate_file_errors(source: str, remedy: str) -> Iterator[None]:
    """Convert the OSError of an unusable file to an error with the file's name and a remedy.

    Raises:
        InvalidInput: the error has a file name.
        SourceUnreadable: the error has none.
    """
    try:
        yield
    except BrokenPipeError:
        # The reader of the progress output has exited.
        raise
    except OSError as error:
        raise unusable_file(error, source, remedy) from error


def unusable_file(error: OSError, source: str, remedy: str) -> InvalidInput | SourceUnreadable:
    """Return the error for an unusable file; without a file name, it contains the first line of the message."""
    if error.filename is None:
        return SourceUnreadable(f"{first_line(error)}; {remedy}")
    return InvalidInput("source", source, f"{error.filename}: {error.strerror}; {remedy}")
