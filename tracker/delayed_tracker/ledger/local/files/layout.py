"""Where things are in a directory of local ledgers.

    DIR/ids                           the next ledger id; ids.lock while one is taken
    DIR/topics/NAME/metadata          the topic's ledgers, properties and end, replaced as a whole
    DIR/topics/NAME/lock              held by the topic's writer
    DIR/topics/NAME/confirmed         the last durable entry, written over and over
    DIR/topics/NAME/HEX.log           one ledger's entries; HEX is its id
    DIR/topics/NAME/HEX.index         where each of its records ends; made again from the log when it is wrong
    DIR/topics/NAME/compacted/        a compacted ledger, the metadata that names it, and the lock of whoever compacts

NAME is the managed ledger's name with every slash encoded, so that any topic name is one harmless directory name. A name
too long for that is cut and has its hash behind ``~``, a character that encoded names never have.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.ledger.topic_name import TopicName, decode_name, encode_name

_NAME_BYTES_MAX: Final = 255
_HASH_MARK: Final = "~"
_LOG_NAME: Final = re.compile(r"([0-9a-f]{1,16})\.log")


@dataclass(frozen=True, slots=True)
class TopicDirectory:
    """The files of one topic."""

    path: Path

    @property
    def metadata(self) -> Path:
        """What the topic consists of."""
        return self.path / "metadata"

    @property
    def lock(self) -> Path:
        """Held by the writer."""
        return self.path / "lock"

    @property
    def confirmed(self) -> Path:
        """How far the open ledger is durable."""
        return self.path / "confirmed"

    def log(self, ledger_id: int) -> Path:
        """A ledger's entries."""
        return self.path / f"{ledger_id:x}.log"

    def index(self, ledger_id: int) -> Path:
        """Where the records of a ledger end."""
        return self.path / f"{ledger_id:x}.index"

    @property
    def compacted(self) -> "TopicDirectory":
        """What compaction leaves."""
        return TopicDirectory(self.path / "compacted")

    def ledger_ids(self) -> list[int]:
        """Ids of all ledgers that have a log, listed in the metadata or not, ascending."""
        if not self.path.is_dir():
            return []
        found = (_LOG_NAME.fullmatch(file.name) for file in self.path.iterdir())
        return sorted(int(match[1], 16) for match in found if match is not None)


@dataclass(frozen=True, slots=True)
class LedgerDirectory:
    """A directory of local ledgers."""

    root: Path

    @property
    def topics_path(self) -> Path:
        """The directory above those of the topics."""
        return self.root / "topics"

    @property
    def ids(self) -> Path:
        """The next ledger id."""
        return self.root / "ids"

    @property
    def ids_lock(self) -> Path:
        """Held while an id is taken."""
        return self.root / "ids.lock"

    def topic(self, name: TopicName) -> TopicDirectory:
        """Where a topic's files are, whether there are any or not."""
        return TopicDirectory(self.topics_path / directory_name(name))

    def topic_directories(self) -> Iterator[TopicDirectory]:
        """All directories of topics, in no particular order."""
        if self.topics_path.is_dir():
            yield from (TopicDirectory(path) for path in self.topics_path.iterdir() if path.is_dir())


def directory_name(name: TopicName) -> str:
    """What a topic's directory is called."""
    encoded = encode_name(name.managed_ledger)
    if len(encoded) <= _NAME_BYTES_MAX:
        return encoded
    digest = hashlib.sha256(encoded.encode()).hexdigest()
    return encoded[: _NAME_BYTES_MAX - len(digest) - 1] + _HASH_MARK + digest


def topic_of_directory(name: str) -> TopicName | None:
    """The topic whose directory has this name; None when the name does not tell."""
    return None if _HASH_MARK in name else TopicName.of_managed_ledger(decode_name(name))
