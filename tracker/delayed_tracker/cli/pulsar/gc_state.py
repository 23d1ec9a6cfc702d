"""The file of ``delayed-tracker pulsar gc --state``: which trackers had no cursor at the last look, and since when.

One JSON object. It has exactly what the last look found missing: a tracker whose cursor was there at any look in between
begins anew. A new file takes the place of the old one in one step.

    format, version     name this format
    crc32c              of all other members: eight hexadecimal digits of their JSON, with sorted names and no spaces
    root, instance      of the cluster: chroot of its metadata store, and id of its BookKeeper cluster
    service, scope      address of the service as it was given, and which of its topics were looked at
    trackers            [topic, subscription, missing since in ms since 1970, epoch then], ascending
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import google_crc32c

from delayed_tracker.cli.pulsar.missing_cursors import Key, Scope, Sighting
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.errors import GcStateInvalid, GcStateUnusable, TooManyTrackers
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.replacing import replacing
from delayed_tracker.files.whole_file import read_whole

FORMAT: Final = "delayed-tracker trackers without a cursor"
VERSION: Final = 1
STATE_BYTES_MAX: Final = 64 << 20
"""Size of a file: 100,000 trackers, as many as a look keeps, whose names have 600 bytes together."""
_INTEGER_MAX: Final = 2**64
_CHECKSUM: Final = "crc32c"


@dataclass(frozen=True, slots=True)
class GcState:
    """The file of one cluster, service and scope."""

    path: Path
    header: Mapping[str, object]

    @classmethod
    async def of(cls, path: Path, cluster: Cluster, service: str, scope: Scope) -> "GcState":
        """Return the file for looks at a cluster and a service; it is not read yet.

        Raises:
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        header = {
            "format": FORMAT,
            "version": VERSION,
            "root": cluster.address.root,
            "instance": await cluster.instance(),
            "service": service,
            "scope": asdict(scope),
        }
        return cls(path, header)

    def read(self) -> dict[Key, Sighting]:
        """Return what the last look found missing; nothing if there is no file yet.

        Raises:
            GcStateInvalid: it is no such file, damaged, too large, or of a newer version.
            GcStateUnusable: it cannot be read.
            InvalidInput: it is of another cluster, service or scope.
        """
        try:
            content = read_whole(self.path, STATE_BYTES_MAX)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise GcStateUnusable(
                f"--state: {self.path} cannot be read ({error.strerror}); give another file, or remove it"
            ) from error
        document = self._document(content)
        for key in ("root", "instance", "service", "scope"):
            if document.get(key) != self.header[key]:
                raise InvalidInput(
                    "--state",
                    str(self.path),
                    f"it is of another {key} ({document.get(key)!r}, not {self.header[key]!r}); give each cluster, service and "
                    "choice of topics a file of its own",
                )
        rows = document.get("trackers")
        if not isinstance(rows, list) or not all(map(_is_tracker, rows)):
            raise self._damaged()
        return {(topic, subscription): Sighting(since_ms, epoch) for topic, subscription, since_ms, epoch in rows}

    def write(self, found: Mapping[Key, Sighting]) -> None:
        """Replace the file, and return when it is on the disk.

        Raises:
            TooManyTrackers: their names make the file larger than :data:`STATE_BYTES_MAX`; the old one is as it was.
            GcStateUnusable: it cannot be written; the old one is as it was.
        """
        rows = [[*key, sighting.since_ms, sighting.epoch] for key, sighting in sorted(found.items())]
        document = {**self.header, "trackers": rows}
        content = json.dumps({_CHECKSUM: _checksum(document), **document}).encode("ascii") + b"\n"
        if len(content) > STATE_BYTES_MAX:
            raise TooManyTrackers(
                f"--state: {self.path} would have more than {STATE_BYTES_MAX} bytes; give --topic-prefix to look at fewer "
                "topics at a time"
            )
        try:
            with replacing(self.path) as written, written.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise GcStateUnusable(
                f"--state: {self.path} cannot be written ({error.strerror}); give a place that this user may write"
            ) from error

    def _document(self, content: bytes) -> dict[str, Any]:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._damaged() from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise GcStateInvalid(f"--state: {self.path} is no file of `pulsar gc --state`; give another name")
        if document.get("version") != VERSION:
            raise GcStateInvalid(
                f"--state: {self.path} has version {document.get('version')}, this program reads {VERSION}; use a newer program"
            )
        stored = document.pop(_CHECKSUM, None)
        try:
            is_whole = stored == _checksum(document)
        except RecursionError as error:
            raise self._damaged() from error
        if not is_whole:
            raise self._damaged()
        return document

    def _damaged(self) -> GcStateInvalid:
        return GcStateInvalid(
            f"--state: {self.path} is damaged; nothing was deleted; remove it, and the grace time of all trackers begins anew"
        )


def _checksum(document: Mapping[str, object]) -> str:
    return f"{google_crc32c.value(json.dumps(document, sort_keys=True, separators=(',', ':')).encode('ascii')):08x}"


def _is_tracker(row: object) -> bool:
    if not isinstance(row, list) or [type(each) for each in row] != [str, str, int, int]:
        return False
    return all(0 <= number < _INTEGER_MAX for number in row[2:])
