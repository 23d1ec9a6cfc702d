"""Directories of Pulsar's filesystem driver: <base>/<managed ledger>/<ledger id>-<uuid>/, a MapFile each."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import UUID

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.metadata.metadata_store import open_metadata
from delayed_tracker.ledger.offload.map_file import MapFileLedger, open_map_file
from delayed_tracker.ledger.offload.offload_source import FoundLedger, OffloadSource
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.topic_name import TopicName

_LEDGER: Final = re.compile(r"([0-9]{1,19})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
# Topics with the old names, which contain a cluster, lie one level deeper.
_PATTERNS: Final = tuple(
    f"{levels}/persistent/*/*/{name}" for levels in ("*/*", "*/*/*") for name in ("data", "index", ".data.crc")
)


class MapFileStore:
    """All ledgers below a base directory."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.unclaimed: Sequence[BadEntry] = ()
        """Always empty: the directories are named after their topics."""
        self._recent = RecentRows()

    @property
    def name(self) -> str:
        """Path of the base directory."""
        return str(self.base)

    def find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """Return the ledgers by topic, from the names of directories.

        A ledger that is there twice cannot be read, because it is not known which copy is whole.
        """
        copies: dict[TopicName, dict[int, FoundLedger]] = defaultdict(dict)
        lesser: list[tuple[TopicName, FoundLedger]] = []
        for path in sorted({path.parent for pattern in _PATTERNS for path in self.base.glob(pattern)}):
            named = _LEDGER.fullmatch(path.name)
            topic = TopicName.of_managed_ledger(path.parent.relative_to(self.base).as_posix())
            if named is None or topic is None or not topic.holds_messages:
                continue
            copy = FoundLedger(int(named[1]), (UUID(named[2]),))
            if not (path / "data").is_file():
                gone = replace(copy, problem=f"{path} has no data file", remedy="restore it from a copy")
                lesser.append((topic, gone))
                continue
            other = copies[topic].get(copy.ledger_id)
            if other is not None:
                problem = f"{path.parent} has it twice or more, as {other.uuids[0]} and {copy.uuids[0]}"
                copy = replace(other, problem=problem, remedy="give metadata=DUMP, which says which copy is whole")
            copies[topic][copy.ledger_id] = copy
        for topic, copy in lesser:
            copies[topic].setdefault(copy.ledger_id, copy)
        return {topic: [found[ledger_id] for ledger_id in sorted(found)] for topic, found in copies.items()}

    def has(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID]) -> bool:
        """Return True if the ledger's directory exists and has a data file."""
        return len(uuids) == 1 and (self._directory(topic, ledger_id, uuids[0]) / "data").is_file()

    def open(
        self,
        topic: TopicName,
        ledger_id: int,
        uuids: Sequence[UUID],
        *,
        entry_count: int | None,  # noqa: ARG002  the file contains it
    ) -> MapFileLedger:
        """Open a ledger from its directory.

        Raises:
            LedgerFileInvalid: the ledger is damaged or missing.
            OSError: a file cannot be read.
        """
        return open_map_file(self._directory(topic, ledger_id, uuids[0]), ledger_id, self._recent)

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def _directory(self, topic: TopicName, ledger_id: int, uuid: UUID) -> Path:
        return self.base / topic.managed_ledger / f"{ledger_id}-{uuid}"


def open_map_files(base: str | Path, *, metadata_dump: str | Path | None = None) -> OffloadSource:
    """Open ledgers that the filesystem driver stored.

    Args:
        base: the directory in the driver's ``fs.defaultFS``; it contains <tenant>/<namespace>/persistent/.
        metadata_dump: JSON lines, plain or gzip; None uses the ledgers that are in the directory.
    Raises:
        InvalidInput: the directory does not exist, or, without metadata, has no ledgers.
        LedgerFileInvalid: the dump is not a metadata dump.
        OSError: a file cannot be read.
    """
    store = MapFileStore(Path(base))
    if not store.base.is_dir():
        raise InvalidInput("base", str(base), "give a directory that exists")
    if metadata_dump is not None:
        return OffloadSource(store, TopicCatalogue(open_metadata(metadata_dump)))
    source = OffloadSource(store)
    if not source.topics():
        raise InvalidInput(
            "base",
            str(base),
            "give the directory in which <tenant>/<namespace>/persistent/<topic>/<ledger>-<uuid>/ lie",
        )
    return source
