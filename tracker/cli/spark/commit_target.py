"""Where ``--commit`` says that rebuilt snapshots go."""

from typing import Annotated

import typer

from spark_rebuild.commit import CommitTarget, StorageCommit
from tracker.cli.spark.service_commit import SCHEME, ServiceCommit

Commit = Annotated[
    str | None,
    typer.Option(
        "--commit",
        help="Where the snapshots go: sqlite:PATH, which no service has open, or grpc://HOST:PORT, a service that runs.",
        metavar="TARGET",
    ),
]


def commit_target(target: str) -> CommitTarget:
    """The target of a URL, not opened yet.

    Raises:
        InvalidInput, UnknownStorageScheme: it names none.
    """
    if target.startswith(SCHEME):
        return ServiceCommit(target.removeprefix(SCHEME))
    return StorageCommit(target)
