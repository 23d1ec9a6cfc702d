"""Objects of Pulsar's blob store driver: <uuid>-ledger-<id> and its -index, or, streamed, <uuid> and its -index."""

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy, LedgerFileInvalid
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.metadata.metadata_store import open_metadata
from delayed_tracker.ledger.offload.blob_index import INDEX_BYTES_MAX, BlobIndex, IndexedLedger, parse_index
from delayed_tracker.ledger.offload.blob_ledger import BlobLedger
from delayed_tracker.ledger.offload.blob_store import BlobStore, SmallObject, open_blob_store
from delayed_tracker.ledger.offload.entry_rows import Damage, DamageKind
from delayed_tracker.ledger.offload.offload_source import FoundLedger, OffloadSource
from delayed_tracker.ledger.topic_name import TopicName

_OBJECT: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-ledger-([0-9]{1,19}))?(-index)?")
_SUFFIX: Final = "-index"
_LEDGER_PART: Final = "-ledger-"
_FORMAT_KEY: Final = "s3managedledgeroffloaderformatversion"
_FORMAT_VERSION: Final = "1"
_TOPIC_KEY: Final = "managedledgername"
_SAY_WHOSE: Final = "give metadata=DUMP, which states the topic, or move the object elsewhere"
_INTERRUPTED: Final = (
    "restore the index from a copy; or, if an offload was interrupted, give metadata=DUMP, which names the whole copies, or "
    "move it out of the way"
)
_NO_END: Final = (1 << 62) - 1


@dataclass(slots=True)
class _Found:
    """Objects of a store, in the order of their names, before one copy of each ledger is chosen."""

    whole: list[tuple[TopicName, FoundLedger]] = field(default_factory=list)
    """Copies whose data may match their index."""
    lesser: list[tuple[TopicName, FoundLedger]] = field(default_factory=list)
    """Copies to take if there is no whole one: the index is damaged, or the data is missing or does not match it."""
    parts: dict[tuple[TopicName, int], list[tuple[int, UUID]]] = field(default_factory=lambda: defaultdict(list))
    """First entry and id of each part of a streamed ledger."""
    orphans: list[tuple[str, str | None]] = field(default_factory=list)
    """Data without an index: its key, and the ledger id in it, if any."""


class BlobLedgerStore:
    """All ledgers of a bucket or directory."""

    def __init__(self, store: BlobStore, *, on_error: ErrorPolicy = ErrorPolicy.FAIL) -> None:
        self.store = store
        self.unclaimed: list[BadEntry] = []
        """Objects whose topic :meth:`find` could not determine: data without an index, indexes that name no topic or
        two topics, and, under SKIP, damaged indexes. Any topic may lack their entries."""
        self._on_error = on_error

    @property
    def name(self) -> str:
        """URL or directory of the store."""
        return self.store.name

    def find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """Return the ledgers by topic, as named by the index objects; reads all of these.

        If a ledger has several copies, the first by name whose data exists is used. If a copy's data is missing, only
        its topic fails, when it is opened. If an index is damaged, only its ledger fails. Objects whose topic is
        unknown are listed in :attr:`unclaimed`.

        Raises:
            LedgerFileInvalid: an index is damaged, its ledger is not named elsewhere, and the policy is FAIL.
            OSError: the store does not answer.
        """
        found = _Found()
        sizes = self.store.sizes()
        for key in sizes:
            named = _OBJECT.fullmatch(key)
            if named is None:
                continue
            if named[3] is not None:
                self._classify(named, found)
            elif key + _SUFFIX not in sizes:
                found.orphans.append((key, named[2]))
        return self._choose(found)

    def has(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID]) -> bool:  # noqa: ARG002  keys have no topic
        """Return True if the index of each part exists."""
        return all(self._data_key(ledger_id, uuid) is not None for uuid in uuids)

    def open(
        self,
        topic: TopicName,  # noqa: ARG002  keys have no topic
        ledger_id: int,
        uuids: Sequence[UUID],
        *,
        entry_count: int | None,
    ) -> BlobLedger:
        """Open a ledger from its index, or from the indexes of its parts.

        Raises:
            LedgerFileInvalid: an index is damaged or missing, does not contain the ledger, or does not match its data.
            OSError: the store does not answer.
        """
        parts = [self._part(ledger_id, uuid) for uuid in uuids]
        blocks = tuple(block for part in parts for block in part.blocks)
        starts = [block.first_entry_id for block in blocks]
        if starts[0] != 0 or any(later <= earlier for earlier, later in itertools.pairwise(starts)):
            raise LedgerFileInvalid(f"{self.name}: parts of ledger {ledger_id} begin with entries {starts}")
        segment = parts[-1].segment
        ledger = BlobLedger(ledger_id, -1, segment.payload_bytes, self.store, blocks)
        if segment.last_entry_id is not None:
            ledger.last_entry_id = segment.last_entry_id
        else:
            ledger.last_entry_id = _walked_end(ledger) if entry_count is None else entry_count - 1
        if ledger.last_entry_id < starts[-1]:
            raise LedgerFileInvalid(
                f"{self.name}: the last block of ledger {ledger_id} begins with entry {starts[-1]}, the ledger ends "
                f"with entry {ledger.last_entry_id}"
            )
        return ledger

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _classify(self, named: re.Match[str], found: _Found) -> None:
        """Read an index object, and add its ledgers to those that were found."""
        data_key, uuid = named[0].removesuffix(_SUFFIX), UUID(named[1])
        stored = self._stored_index(data_key)
        owner = TopicName.of_managed_ledger(stored.user_metadata.get(_TOPIC_KEY, ""))
        try:
            index = self._index(data_key, stored)
        except LedgerFileInvalid as error:
            self._classify_damaged(named, owner, error, found)
            return
        copies = found.whole if self._data_problem(data_key, index) is None else found.lesser
        for ledger_id, part in index.ledgers.items():
            topic = part.segment.topic or owner
            if topic is None or owner not in {None, topic}:
                said = "names no topic" if topic is None else f"names {topic}, the object itself {owner}"
                self._leave_unclaimed(named[2] or ledger_id, f"{self.name}/{named[0]} {said}", _SAY_WHOSE)
            elif not topic.holds_messages:
                continue
            elif ledger_id is not None and named[2] is None:
                found.parts[topic, ledger_id].append((part.blocks[0].first_entry_id, uuid))
            else:
                copies.append((topic, FoundLedger(int(named[2]), (uuid,))))

    def _classify_damaged(
        self, named: re.Match[str], owner: TopicName | None, error: LedgerFileInvalid, found: _Found
    ) -> None:
        """Add the ledger of a damaged index, if the object itself says which one it is.

        Raises:
            LedgerFileInvalid: it does not, and the policy is FAIL.
        """
        if owner is not None and named[2] is not None:
            remedy = "restore it from a copy, or give the bookies' disks together with it"
            damaged = FoundLedger(int(named[2]), (UUID(named[1]),), error.message, remedy)
            found.lesser.append((owner, damaged))
        elif self._on_error is ErrorPolicy.FAIL:
            raise LedgerFileInvalid(f"{error.message}; {_SAY_WHOSE}") from error
        else:
            self._leave_unclaimed(named[2], error.message, _SAY_WHOSE)

    def _choose(self, found: _Found) -> dict[TopicName, list[FoundLedger]]:
        """Return one copy of each ledger, by topic, ascending; data whose index is needed is left unclaimed."""
        copies: dict[TopicName, dict[int, FoundLedger]] = defaultdict(dict)
        for topic, copy in itertools.chain(found.whole, found.lesser):
            copies[topic].setdefault(copy.ledger_id, copy)
        indexed = {ledger_id for own in copies.values() for ledger_id in own}
        for key, orphan_of in found.orphans:
            # Data without an index beside an indexed copy of the same ledger is left over from a failed attempt.
            if orphan_of is None or int(orphan_of) not in indexed:
                self._leave_unclaimed(orphan_of, f"{self.name}/{key} has no index", _INTERRUPTED)
        for (topic, ledger_id), parts in found.parts.items():
            copies[topic].setdefault(ledger_id, FoundLedger(ledger_id, tuple(uuid for _, uuid in sorted(parts))))
        return {topic: [own[ledger_id] for ledger_id in sorted(own)] for topic, own in copies.items()}

    def _leave_unclaimed(self, ledger_id: str | int | None, reason: str, remedy: str) -> None:
        known = None if ledger_id is None else int(ledger_id)
        self.unclaimed.append(BadEntry(known, None, None, None, reason, entry_count=0, remedy=remedy))

    def _part(self, ledger_id: int, uuid: UUID) -> IndexedLedger:
        key = self._data_key(ledger_id, uuid)
        if key is None:
            raise LedgerFileInvalid(
                f"{self.name} has no index of ledger {ledger_id}, {uuid}-ledger-{ledger_id}{_SUFFIX}"
            )
        index = self._index(key, self._stored_index(key))
        problem = self._data_problem(key, index)
        if problem is not None:
            raise LedgerFileInvalid(problem)
        part = index.ledgers.get(None) or index.ledgers.get(ledger_id)
        if part is None:
            raise LedgerFileInvalid(f"{self.name}/{key}{_SUFFIX} does not have ledger {ledger_id}")
        return part

    def _stored_index(self, data_key: str) -> SmallObject:
        stored = self.store.read_small(data_key + _SUFFIX, INDEX_BYTES_MAX)
        if stored is None:
            raise LedgerFileInvalid(f"{self.name}/{data_key}{_SUFFIX} is gone; open the source again")
        return stored

    def _index(self, data_key: str, stored: SmallObject) -> BlobIndex:
        """Parse a stored index and check its format version."""
        where = f"{self.name}/{data_key}{_SUFFIX}"
        version = stored.user_metadata.get(_FORMAT_KEY, _FORMAT_VERSION)
        if version != _FORMAT_VERSION:
            raise LedgerFileInvalid(f"{where} has format version {version!r}; this program reads {_FORMAT_VERSION}")
        index = parse_index(stored.content, where=where, data_key=data_key)
        if None in index.ledgers and _LEDGER_PART not in data_key:
            raise LedgerFileInvalid(
                f"{where} is the index of one ledger, whose id only its name can say; name it <uuid>-ledger-<id>{_SUFFIX}"
            )
        return index

    def _data_problem(self, data_key: str, index: BlobIndex) -> str | None:
        """Return the reason why the data does not match its index; None if it may match."""
        data_bytes = self.store.size(data_key)
        if data_bytes == index.data_bytes:
            return None
        has = "is not there" if data_bytes is None else f"has {data_bytes} bytes"
        return f"{self.name}/{data_key} {has}, its index says {index.data_bytes} bytes"

    def _data_key(self, ledger_id: int, uuid: UUID) -> str | None:
        for key in (f"{uuid}{_LEDGER_PART}{ledger_id}", str(uuid)):
            if self.store.size(key + _SUFFIX) is not None:
                return key
        return None


def _walked_end(ledger: BlobLedger) -> int:
    """Return the last entry of a ledger that was offloaded before it was closed: the last one of its last block.

    If damage hides the end, the damage is reported to callers that read the ledger's last entry.
    """
    last, ledger.end_damage = ledger.blocks[-1].first_entry_id - 1, None
    for found in ledger.walk_block(len(ledger.blocks) - 1, 0, _NO_END):
        if isinstance(found, Damage):
            hidden = replace(
                found, reason=f"{found.reason}; entries behind it may be hidden", kind=DamageKind.BEYOND_END
            )
            ledger.end_damage = hidden if found.kind is DamageKind.CORRUPT else ledger.end_damage
        elif len(found):
            last, ledger.end_damage = found.last, None
    return last


def open_blobs(
    place: str, *, metadata_dump: str | Path | None = None, on_error: ErrorPolicy = ErrorPolicy.FAIL
) -> OffloadSource:
    """Open ledgers that the blob store driver stored.

    Args:
        place: a bucket's URL (``s3://``, ``gs://``, ``az://``), or a directory.
        metadata_dump: JSON lines, plain or gzip; None uses the ledgers that are in the store, and reads all indexes.
        on_error: SKIP lists a damaged index of an unknown topic in :attr:`BlobLedgerStore.unclaimed`.
    Raises:
        InvalidInput: the directory or scheme does not exist; or, without metadata, the store has no ledgers.
        LedgerFileInvalid: the dump is not a metadata dump; or an index is damaged, and the policy is FAIL.
        OSError: the store does not answer.
    """
    store = BlobLedgerStore(open_blob_store(place), on_error=on_error)
    if metadata_dump is not None:
        return OffloadSource(store, TopicCatalogue(open_metadata(metadata_dump)))
    source = OffloadSource(store)
    if not source.topics() and not store.unclaimed:
        raise InvalidInput(
            "blob store",
            place,
            "give the bucket or directory in which <uuid>-ledger-<id> and <uuid>-ledger-<id>-index lie",
        )
    return source
