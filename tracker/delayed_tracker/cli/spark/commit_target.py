"""Option ``--commit``: the target of rebuilt snapshots."""

from pathlib import Path
from typing import Annotated, Final

import typer

from delayed_tracker.cli.spark.service_commit import SCHEME, ServiceCommit
from delayed_tracker.cli.terminal.output import notice
from delayed_tracker.client import ClientCredentials
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark.commit.commit import CommitTarget, StorageCommit
from delayed_tracker.spark.commit.owned_storage import is_shared
from delayed_tracker.spark.commit.pulsar_commit import SCHEME as PULSAR_SCHEME
from delayed_tracker.spark.commit.pulsar_commit import PulsarCommit
from delayed_tracker.spark.commit.shared_commit import SharedCommit
from delayed_tracker.storage.objects.present_objects import FORMAT_KEY

_SQLITE: Final = "sqlite:"
_DIRECTORY: Final = "file://"

Commit = Annotated[
    str | None,
    typer.Option(
        "--commit",
        help="Where the snapshots go: sqlite:PATH, which no service has open; a storage that services share: "
        "bookkeeper:zk://…, s3://, gs://, az://, file:///DIR; grpc://HOST:PORT, a service that runs; or "
        "pulsar:zk://HOST:PORT, the brokers' own buckets of topics that are not loaded.",
        metavar="TARGET",
    ),
]


def commit_target(target: str, credentials: ClientCredentials) -> CommitTarget:
    """Return the target of a URL, not opened yet.

    Args:
        target: the URL.
        credentials: for a service.
    Raises:
        InvalidInput, UnknownStorageScheme: the URL names no target.
    """
    if target.startswith(SCHEME):
        return ServiceCommit(target.removeprefix(SCHEME), credentials)
    if target.startswith(PULSAR_SCHEME):
        return PulsarCommit(target, report=notice)
    try:
        return SharedCommit(target) if is_shared(target) else StorageCommit(target)
    except InvalidInput as error:
        raise InvalidInput("--commit", target, error.remedy) from error


def check_target(url: str, target: CommitTarget) -> None:
    """Open a target and close it again, so that one in use is refused before Spark starts, which takes time.

    A storage that does not exist yet is not created, because another check may still fail.

    Raises:
        InvalidInput: no file can have that name.
        StorageInUse: another process has the storage open.
        Unavailable: no service answers there.
    """
    file = storage_file(url)
    try:
        is_there = file is None or file.exists()
    except OSError as error:
        raise InvalidInput("--commit", url, f"{error.strerror}; give a file that can be written") from error
    if is_there:
        try:
            with target:
                pass
        except InvalidInput as error:
            raise InvalidInput("--commit", url, error.remedy) from error


def storage_file(url: str) -> Path | None:
    """Return the file that a storage on this machine has if it exists; None for others."""
    if url.startswith(_DIRECTORY):
        return Path(url.removeprefix(_DIRECTORY), FORMAT_KEY)
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None
