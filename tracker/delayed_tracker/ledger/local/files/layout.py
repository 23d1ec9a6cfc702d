"""Paths in a directory of local ledgers.

    DIR/ids                           the next ledger id; ids.lock is held while one is taken
    DIR/topics/NAME/metadata          the topic's ledgers, properties and end, replaced as a whole
    DIR/topics/NAME/lock              held by the topic's writer
    DIR/topics/NAME/confirmed         the last durable entry, overwritten again and again
    DIR/topics/NAME/HEX.log           one ledger's entries; HEX is its id
    DIR/topics/NAME/HEX.index         where each of its records ends; made again from the log when it is wrong
    DIR/topics/NAME/compacted/        a compacted ledger, the metadata that names it, and the lock of the compaction

NAME is the managed ledger's name with every slash encoded, so that any topic name is one safe directory name. A name
that is too long is cut, and its hash is appended behind ``~``, a character that encoded names never contain.
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
        """File with the topic's ledgers, properties and termination."""
        return self.path / "metadata"

    @property
    def lock(self) -> Path:
        """Lock file, held by the writer."""
        return self.path / "lock"

    @property
    def confirmed(self) -> Path:
        """File with the end of the open ledger's durable part."""
        return self.path / "confirmed"

    def log(self, ledger_id: int) -> Path:
        """Return the path of a ledger's entries."""
        return self.path / f"{ledger_id:x}.log"

    def index(self, ledger_id: int) -> Path:
        """Return the path of a ledger's index: the ends of its records."""
        return self.path / f"{ledger_id:x}.index"

    @property
    def compacted(self) -> "TopicDirectory":
        """Directory of the compacted ledger."""
        return TopicDirectory(self.path / "compacted")

    def ledger_ids(self) -> list[int]:
        """Return the ids of all ledgers that have a log, listed in the metadata or not, ascending."""
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
        """Parent of the topics' directories."""
        return self.root / "topics"

    @property
    def ids(self) -> Path:
        """File with the next ledger id."""
        return self.root / "ids"

    @property
    def ids_lock(self) -> Path:
        """Lock file, held while an id is taken."""
        return self.root / "ids.lock"

    def topic(self, name: TopicName) -> TopicDirectory:
        """Return the directory of a topic's files, existing or not."""
        return TopicDirectory(self.topics_path / directory_name(name))

    def topic_directories(self) -> Iterator[TopicDirectory]:
        """Yield the directories of all topics, in no particular order."""
        if self.topics_path.is_dir():
            yield from (TopicDirectory(path) for path in self.topics_path.iterdir() if path.is_dir())


def directory_name(name: TopicName) -> str:
    """Return the name of a topic's directory."""
    encoded = encode_name(name.managed_ledger)
    if len(encoded) <= _NAME_BYTES_MAX:
        return encoded
    digest = hashlib.sha256(encoded.encode()).hexdigest()
    return encoded[: _NAME_BYTES_MAX - len(digest) - 1] + _HASH_MARK + digest


def topic_of_directory(name: str) -> TopicName | None:
    """Return the topic of a directory with this name; None if the name was cut and does not contain it."""
    return None if _HASH_MARK in name else TopicName.of_managed_ledger(decode_name(name))
