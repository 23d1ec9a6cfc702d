"""Staging area, where tasks leave parts of snapshots for the driver: objects under a URL that all of them can reach.

An object is named after its part, its run and its attempt. It is written once and appears whole. A run may use any
object of a part that verifies, even if another run wrote it. What is accepted into a part depends on the time at which
messages count as due, so a job leaves that time, too, and removes it when it has committed.

    <URL>/<name of the part>.<run>.<attempt>.part
    <URL>/<name of the job>.time
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.offload.blob_store import first_line
from delayed_tracker.spark.commit.staged_part import PartWriter, StagedPart, open_part
from delayed_tracker.spark.errors import StagedWorkInvalid, StagingUnavailable

_OBJECT: Final = re.compile(r"([0-9a-f]{64})\.([0-9a-f]{32})\.([0-9a-f]{32})\.part")
_TIME: Final = re.compile(r"[0-9a-f]{64}\.time")
KEPT: Final = timedelta(days=7)
"""Age from which staged work is abandoned: no job continues with it, and the next one that commits deletes it."""
_BUFFER_BYTES: Final = 8 << 20
_FILE: Final = "file://"


@dataclass(frozen=True, slots=True)
class StagedObject:
    """One object of a listing."""

    key: str
    part: str
    """Name of the part."""
    run: str
    size: int
    modified: datetime


class Staging:
    """Objects under one URL. Pickled as the URL alone: each process opens its own connection."""

    def __init__(self, url: str) -> None:
        """Open a URL: ``file:///directory``, ``s3://``, ``gs://`` or ``az://``; or the path of a directory.

        Raises:
            InvalidInput: the scheme is unknown, or the cloud storage lacks a setting.
        """
        self.url = url if "://" in url else _FILE + str(Path(url).absolute())
        self._store = _open(self.url)

    def __reduce__(self) -> tuple[type["Staging"], tuple[str]]:
        return Staging, (self.url,)

    @contextmanager
    def writer(self, part: str, run: str) -> Iterator[tuple[str, PartWriter]]:
        """Write one part under a unique name; the object appears when the block ends without an error.

        Yields: the key of the object, and its writer.
        Raises:
            StagingUnavailable: it cannot be written.
        """
        key = f"{part}.{run}.{uuid4().hex}.part"
        with _naming(f"{self.url}/{key} cannot be written"):
            sink = obstore.open_writer(self._store, key, buffer_size=_BUFFER_BYTES)
            with sink:
                yield key, PartWriter(sink)

    def objects(self) -> list[StagedObject]:
        """Return all staged objects, oldest first; other files are ignored.

        Raises:
            StagingUnavailable: the URL cannot be listed.
        """
        found = [
            StagedObject(meta["path"], named[1], named[2], meta["size"], meta["last_modified"])
            for meta in self._listed()
            if (named := _OBJECT.fullmatch(meta["path"])) is not None
        ]
        return sorted(found, key=lambda staged: (staged.modified, staged.key))

    def begun_ms(self, job: str, now_ms: int) -> int | None:
        """Return the time of a job that has staged work and did not commit; None if there is none, or it is abandoned.

        Args:
            job: name of the job: a digest of its settings, in 64 hexadecimal digits.
            now_ms: the time now.
        Raises:
            StagingUnavailable: it cannot be read.
        """
        key = f"{job}.time"
        with _naming(f"{self.url}/{key} cannot be read"):
            try:
                stored = bytes(obstore.get(self._store, key).bytes())
            except FileNotFoundError:
                return None
        begun_ms = int(stored) if stored.isdigit() and len(stored) <= len(str(now_ms)) else 0
        return begun_ms if now_ms - KEPT // timedelta(milliseconds=1) < begun_ms <= now_ms else None

    def begin(self, job: str, now_ms: int) -> None:
        """Leave the time of a job that is about to stage work. Raises StagingUnavailable."""
        key = f"{job}.time"
        with _naming(f"{self.url}/{key} cannot be written"):
            obstore.put(self._store, key, str(now_ms).encode())

    def end(self, job: str) -> None:
        """Forget the time of a job: it has committed. Raises StagingUnavailable."""
        self.remove([f"{job}.time"])

    def open(self, key: str) -> StagedPart:
        """Open a part by its key.

        Raises:
            StagedWorkInvalid: it is gone, cut short, or not a part.
            StagingUnavailable: it cannot be read.
        """
        name = f"{self.url}/{key}"

        def fetch(start: int, end: int) -> bytes:
            with _naming(f"{name} cannot be read"):
                return bytes(obstore.get_range(self._store, key, start=start, end=end)) if end > start else b""

        with _naming(f"{name} cannot be read"):
            size: int = obstore.head(self._store, key)["size"]
        return open_part(name, size, fetch)

    def remove(self, keys: Sequence[str]) -> None:
        """Delete objects; objects that are already gone are skipped.

        Raises:
            StagingUnavailable: an object cannot be deleted.
        """
        for key in keys:
            with _naming(f"{self.url}/{key} cannot be deleted"):
                try:
                    obstore.delete(self._store, key)
                except FileNotFoundError:
                    continue

    def sweep(self, *, older_than: timedelta, now: datetime | None = None) -> list[str]:
        """Delete what abandoned runs left: all that is older than ``older_than``. Return the keys.

        Raises:
            StagingUnavailable: the URL cannot be listed, or an object cannot be deleted.
        """
        oldest = (now or datetime.now(UTC)) - older_than
        keys = [
            meta["path"]
            for meta in self._listed()
            if (_OBJECT.fullmatch(meta["path"]) or _TIME.fullmatch(meta["path"])) and meta["last_modified"] < oldest
        ]
        self.remove(keys)
        return keys

    def _listed(self) -> Iterator[Any]:
        """Yield the metadata of every object below the URL."""
        with _naming(f"{self.url} cannot be listed"):
            for batch in obstore.list(self._store):
                yield from batch


@dataclass(frozen=True, slots=True)
class PartMade:
    """Staged part: the report of a task, or a part that an earlier run left."""

    key: str
    index_count: int
    segment_bytes: int
    metadata_bytes: int


def usable_parts(staging: Staging, wanted: Collection[str]) -> dict[str, PartMade]:
    """Return the parts that need not be made again: for the name of each, a staged object that verifies.

    Args:
        staging: the staging area.
        wanted: names of parts.
    Cost: O(bytes of the objects of those parts).
    """
    usable: dict[str, PartMade] = {}
    for staged in staging.objects():
        if staged.part not in wanted or staged.part in usable:
            continue
        try:
            part = staging.open(staged.key)
            part.verify()
        except StagedWorkInvalid:
            continue
        usable[staged.part] = PartMade(staged.key, part.index_count, part.segment_bytes, len(part.metadata))
    return usable


def _open(url: str) -> Any:
    try:
        if url.startswith(_FILE):
            return LocalStore(url.removeprefix(_FILE), mkdir=True)
        return from_url(url)
    except (BaseError, ValueError, OSError) as error:
        raise InvalidInput(
            "staging", url, f"give a directory or file://, s3://, gs://, az:// and what it needs: {first_line(error)}"
        ) from error


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Translate errors of the object store to errors of this package."""
    try:
        yield
    except FileNotFoundError as error:
        raise StagedWorkInvalid(
            f"{what}: it is gone: another run of this job has committed and removed it, or it was deleted; run the job again"
        ) from error
    except (BaseError, OSError) as error:
        raise StagingUnavailable(f"{what}: {first_line(error)}") from error
