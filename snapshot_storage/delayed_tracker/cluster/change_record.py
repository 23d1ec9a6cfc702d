"""The file of ``--backup``: what a command changes in a cluster, written and synced before each change.

One line for each fact: a CRC32C of eight hexadecimal digits, a space, and a JSON object. The first line names format and
cluster. Then follow, in the order of the changes:

    {"fact": "created", "topic", "subscription", "ledger"}      a bucket ledger that the command wrote
    {"fact": "cursor", "topic", "subscription", "path", "version", "before", "after"}
                                                                a cursor's node that it was about to replace, in base64
    {"fact": "refused", "path", "version"}                      that write, the last one of this node and version, was not made
    {"fact": "entry", "ledger", "entry", "payload"}             one entry of a ledger that it was about to delete
    {"fact": "deleted", "ledger", "custom", "ensemble", "write_quorum", "ack_quorum", "digest", "entry_count"}
                                                                that ledger, of which all entries were written before
    {"fact": "adopted", "storage", "topic", "subscription", "epoch"}
                                                                a tracker of a storage, whose buckets it was about to name there
    {"fact": "restored", "ledger", "as"}                        `pulsar restore` wrote it again, under this id

The last line may be cut short: its change was not made.
"""

import base64
import json
import os
from array import array
from collections.abc import AsyncIterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import google_crc32c

from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.adoption_undo import AdoptedTracker
from delayed_tracker.cluster.bucket_ledger import LedgerForm
from delayed_tracker.cluster.errors import BackupInvalid, BackupUnusable
from delayed_tracker.cluster.switch import NodeWrite
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.syncing import sync
from delayed_tracker.ledger.topic_name import TopicName

FORMAT: Final = "delayed-tracker changes of a Pulsar cluster"
VERSION: Final = 1
LINE_BYTES_MAX: Final = 64 << 20
"""Longest line: an entry has 5 MiB mostly, which are 7 MB in base64."""
FACTS_MAX: Final = 1_000_000
"""Facts of one file, without entries, of which eight bytes are held in memory each."""


@dataclass(frozen=True, slots=True)
class DeletedLedger:
    """A ledger that a command deleted, and the place of its entries in the file."""

    ledger_id: int
    custom: Mapping[str, bytes]
    form: LedgerForm
    entry_count: int
    places: Sequence[int]
    """Offsets of the lines of its entries, in order."""


@dataclass(slots=True)
class RecordedChanges:
    """Content of a file."""

    path: Path
    cluster: str
    """Address of the cluster, as the command was given it."""
    root: str
    """Chroot of the cluster."""
    instance: str
    """Id of its BookKeeper cluster; empty if it has none."""
    writes: list[NodeWrite] = field(default_factory=list)
    """Those that were made, or may have been; without those that are known to have been refused."""
    created: list[tuple[TopicName, str, int]] = field(default_factory=list)
    """Topic, subscription and ledger id."""
    deleted: dict[int, DeletedLedger] = field(default_factory=dict)
    """Deleted ledgers by id."""
    restored: dict[int, int] = field(default_factory=dict)
    """Ids under which deleted ledgers were written again."""
    adopted: list[AdoptedTracker] = field(default_factory=list)
    """Trackers of storages whose buckets were adopted."""

    def entries(self, ledger: DeletedLedger) -> Iterator[bytes]:
        """Yield the entries of a deleted ledger, one in memory at a time.

        Raises:
            BackupInvalid: the file was changed since it was read.
            OSError: it cannot be read.
        """
        with self.path.open("rb") as file:
            for number, place in enumerate(ledger.places):
                file.seek(place)
                fact = _parsed(self.path, file.readline(LINE_BYTES_MAX + 1), place)
                if fact is None or (fact["ledger"], fact["entry"]) != (ledger.ledger_id, number):
                    raise BackupInvalid(f"{self.path}: it was changed while it was read; run the command again")
                yield base64.b64decode(fact["payload"], validate=True)


class ChangeRecord:
    """Writer of one file; a context manager. Every method that records a change returns when it is on the disk."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    @classmethod
    async def create(cls, path: Path, cluster: Cluster) -> Self:
        """Create a file, which must not exist, for changes of a cluster.

        Raises:
            InvalidInput: the file exists.
            BackupUnusable: it cannot be written.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        header = {
            "format": FORMAT,
            "version": VERSION,
            "cluster": cluster.address.text,
            "root": cluster.address.root,
            "instance": await cluster.instance(),
        }
        record = cls(path, _created(path))
        record._write(header)
        record._sync()
        return record

    @classmethod
    def append(cls, path: Path) -> Self:
        """Open a file that was read, to add facts behind its last whole line.

        Raises:
            BackupUnusable: it cannot be written.
        """
        with _usable(path):
            file = path.open("r+b")
            end = _end_of_lines(file)
            file.truncate(end)
            file.seek(end)
        return cls(path, file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with _usable(self._path):
            self._file.close()

    def discard(self) -> None:
        """Close the file and remove it: nothing was changed."""
        self.close()
        with _usable(self._path):
            self._path.unlink()

    def created(self, topic: TopicName, subscription: str, ledger_id: int) -> None:
        """Record a ledger that was written.

        Raises:
            BackupUnusable: the file cannot be written.
        """
        self._write({"fact": "created", **_cursor(topic, subscription), "ledger": ledger_id})
        self._sync()

    def cursor(self, write: NodeWrite) -> None:
        """Record a write of a cursor's node that is about to be sent.

        Raises:
            BackupUnusable: the file cannot be written.
        """
        self._write(
            {
                "fact": "cursor",
                **_cursor(write.topic, write.subscription),
                "path": write.path,
                "version": write.version,
                "before": _base64(write.before),
                "after": _base64(write.after),
            }
        )
        self._sync()

    def refused(self, write: NodeWrite) -> None:
        """Record that the last recorded write of a node was refused: it is no change.

        Raises:
            BackupUnusable: the file cannot be written.
        """
        self._write({"fact": "refused", "path": write.path, "version": write.version})
        self._sync()

    async def deleted(self, metadata: LedgerMetadata, entries: AsyncIterable[bytes]) -> None:
        """Record a bucket ledger that is about to be deleted, with its entries.

        Args:
            metadata: of the ledger.
            entries: all of them, or none if they cannot be read.
        Raises:
            BackupUnusable: the file cannot be written.
        """
        count = 0
        async for entry in entries:
            self._write(
                {"fact": "entry", "ledger": metadata.ledger_id, "entry": count, "payload": _base64(entry)},
            )
            count += 1
        self._write(
            {
                "fact": "deleted",
                "ledger": metadata.ledger_id,
                "custom": {key: _base64(value) for key, value in metadata.custom.items()},
                "ensemble": metadata.ensemble_size,
                "write_quorum": metadata.write_quorum,
                "ack_quorum": metadata.ack_quorum,
                "digest": (metadata.digest_type or DigestType.CRC32C).name,
                "entry_count": count,
            }
        )
        self._sync()

    def adopted(self, tracker: AdoptedTracker) -> None:
        """Record a tracker whose buckets are about to be named in the catalogue of a storage.

        Raises:
            BackupUnusable: the file cannot be written.
        """
        self._write({"fact": "adopted", **asdict(tracker)})
        self._sync()

    def restored(self, ledger_id: int, written_as: int) -> None:
        """Record that a deleted ledger was written again.

        Raises:
            BackupUnusable: the file cannot be written.
        """
        self._write({"fact": "restored", "ledger": ledger_id, "as": written_as})
        self._sync()

    def _write(self, fact: Mapping[str, object]) -> None:
        body = json.dumps(fact, separators=(",", ":")).encode("ascii")
        with _usable(self._path):
            self._file.write(b"%08x %s\n" % (google_crc32c.value(body), body))

    def _sync(self) -> None:
        with _usable(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())


def read_changes(path: Path) -> RecordedChanges:
    """Read a file, without holding the entries of deleted ledgers.

    Raises:
        BackupInvalid: it is no such file, of a newer version, damaged before its last line, or has too many facts.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = _parsed(path, file.readline(LINE_BYTES_MAX + 1), 0)
        if header is None or header.get("format") != FORMAT:
            raise BackupInvalid(f"{path}: it is no backup of changes of a Pulsar cluster; give the file of --backup")
        if header.get("version") != VERSION:
            raise BackupInvalid(
                f"{path}: it has version {header.get('version')}, this program reads {VERSION}; use a newer program"
            )
        cluster, root, instance = (str(header.get(key, "")) for key in ("cluster", "root", "instance"))
        changes = RecordedChanges(path, cluster, root, instance)
        places: dict[int, array[int]] = {}
        count = 0
        place = file.tell()
        while line := file.readline(LINE_BYTES_MAX + 1):
            fact = _parsed(path, line, place)
            if fact is None:
                break
            try:
                _take(changes, places, fact, place)
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                raise BackupInvalid(f"{path}: a fact at byte {place} is damaged; give an undamaged copy") from error
            count += fact["fact"] != "entry"
            if count > FACTS_MAX:
                raise BackupInvalid(f"{path}: it has more than {FACTS_MAX} facts; give the file of --backup")
            place = file.tell()
    return changes


def _take(changes: RecordedChanges, places: "dict[int, array[int]]", fact: dict[str, Any], place: int) -> None:
    """Add a fact to the changes."""
    match fact["fact"]:
        case "created":
            changes.created.append((TopicName.parse(fact["topic"]), str(fact["subscription"]), int(fact["ledger"])))
        case "cursor":
            changes.writes.append(
                NodeWrite(
                    TopicName.parse(fact["topic"]),
                    str(fact["subscription"]),
                    str(fact["path"]),
                    int(fact["version"]),
                    base64.b64decode(fact["before"], validate=True),
                    base64.b64decode(fact["after"], validate=True),
                )
            )
        case "refused":
            refused = (str(fact["path"]), int(fact["version"]))
            of_node = [at for at, write in enumerate(changes.writes) if (write.path, write.version) == refused]
            if not of_node:
                raise ValueError
            del changes.writes[of_node[-1]]
        case "entry":
            ledger = int(fact["ledger"])
            if fact["entry"] == 0:
                places[ledger] = array("q")  # an earlier attempt to record it was cut short
            places[ledger].append(place)
        case "deleted":
            ledger, count = int(fact["ledger"]), int(fact["entry_count"])
            found = places.pop(ledger, array("q"))
            if len(found) != count:
                raise ValueError
            changes.deleted[ledger] = DeletedLedger(
                ledger,
                {str(key): base64.b64decode(value, validate=True) for key, value in fact["custom"].items()},
                LedgerForm(
                    int(fact["ensemble"]),
                    int(fact["write_quorum"]),
                    int(fact["ack_quorum"]),
                    DigestType[fact["digest"]],
                ),
                count,
                found,
            )
        case "adopted":
            storage, topic, subscription = (str(fact[name]) for name in ("storage", "topic", "subscription"))
            changes.adopted.append(AdoptedTracker(storage, topic, subscription, int(fact["epoch"])))
        case "restored":
            changes.restored[int(fact["ledger"])] = int(fact["as"])
        case _:
            raise ValueError


def _parsed(path: Path, line: bytes, place: int) -> dict[str, Any] | None:
    """Return the object of a line; None if it is the last one and cut short."""
    if not line.endswith(b"\n"):
        if len(line) > LINE_BYTES_MAX:
            raise BackupInvalid(f"{path}: a line is longer than {LINE_BYTES_MAX} bytes; give the file of --backup")
        return None
    body = line[9:-1]
    try:
        if int(line[:8], 16) == google_crc32c.value(body):
            fact = json.loads(body)
            if isinstance(fact, dict):
                return fact
    except ValueError:
        pass
    raise BackupInvalid(f"{path}: the line at byte {place} is damaged; give an undamaged copy")


def _created(path: Path) -> BinaryIO:
    """Create a file, and return it when its directory has it on the disk."""
    try:
        file = path.open("xb")
    except FileExistsError as error:
        raise InvalidInput("--backup", str(path), "the file exists; give the name of a new one") from error
    except OSError as error:
        raise BackupUnusable(f"{path}: it cannot be created ({error.strerror}); give another place") from error
    with _usable(path):
        sync(path.absolute().parent)
    return file


def _end_of_lines(file: BinaryIO) -> int:
    """Return the offset behind the last line end."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - LINE_BYTES_MAX - 1)
    file.seek(start)
    return start + file.read().rfind(b"\n") + 1


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupUnusable(
            f"{path}: it cannot be written ({error.strerror}); give a place with room for it"
        ) from error


def _cursor(topic: TopicName, subscription: str) -> dict[str, str]:
    return {"topic": str(topic), "subscription": subscription}


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
