"""Where commands about ledgers read from: one or more sources, opened together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tracker.cli.output import progress
from tracker.core.errors import DelayedTrackerError, InvalidInput
from tracker.ledger.source_url import open_sources
from tracker.ledger.topic_queries import TopicQueries

Source = Annotated[
    list[str],
    typer.Option(
        "--source",
        envvar="DELAYED_TRACKER_SOURCE",
        help="Where the ledgers are: bookkeeper+file:DIR[,DIR...]?metadata=DUMP (bookies' disks), "
        "offload+mapfile:DIR[?metadata=DUMP], offload+blob:s3://BUCKET[?metadata=DUMP] (or gs://, az://, file://), "
        "ledger:DIR (local ledgers). May be repeated: each ledger is read from the first source that has all of it.",
        metavar="URL",
    ),
]


class SourceUnreadable(DelayedTrackerError):
    """A source of ledgers cannot be read for now. See to what the message names, and try again."""

    reason = "SOURCE_UNREADABLE"


@contextmanager
def opened(source: list[str]) -> Iterator[TopicQueries]:
    """Questions to sources of ledgers; shows progress while they open. Print answers behind it, not inside.

    Raises:
        LedgerError: files or metadata are damaged, or lack what is asked for.
        InvalidInput: a URL names no source, or a file cannot be read.
        SourceUnreadable: a bucket cannot be read.
    """
    with files_usable(" ".join(source), "name files that can be read"):
        with progress("looking through files", "bytes") as looked:
            ledgers = open_sources(source, progress=looked)
        with ledgers:
            yield TopicQueries(ledgers)


@contextmanager
def files_usable(source: str, remedy: str) -> Iterator[None]:
    """Say which file of a source cannot be used, and what to do.

    Raises:
        InvalidInput: it is a file.
        SourceUnreadable: it is something else.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            # Clients of buckets tell what led to what on further lines.
            said = str(error).strip().partition("\n")[0]
            raise SourceUnreadable(f"{said}; {remedy}") from error
        raise InvalidInput("source", source, f"{error.filename}: {error.strerror}; {remedy}") from error
