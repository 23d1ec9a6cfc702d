"""Where commands about ledgers read from: one or more sources, opened together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tracker.cli.output import progress
from tracker.core.errors import InvalidInput
from tracker.ledger.source_url import open_source
from tracker.ledger.topic_queries import TopicQueries

Source = Annotated[
    str,
    typer.Option(
        "--source",
        envvar="DELAYED_TRACKER_SOURCE",
        help="Where the ledgers are: bookkeeper+file:DIR[,DIR...]?metadata=DUMP for bookies' disks, ledger:DIR for local "
        "ledgers.",
        metavar="URL",
    ),
]


@contextmanager
def opened(source: str) -> Iterator[TopicQueries]:
    """Questions to a source of ledgers; shows progress while it opens. Print answers behind it, not inside.

    Raises:
        LedgerError: files or metadata are damaged, or lack what is asked for.
        InvalidInput: the URL names no source, or a file cannot be read.
    """
    try:
        with progress("looking through files", "bytes") as looked, open_source(source, progress=looked) as ledgers:
            yield TopicQueries(ledgers)
    except OSError as error:
        file = source if error.filename is None else str(error.filename)
        raise InvalidInput("file", file, f"{error.strerror or error}: give files that can be read") from error
