"""Places of the entries of a MapFile: read from its ``index`` file, or found by a scan if that file is missing.

``index`` is a block-compressed SequenceFile of offsets by key. If ``data`` is block-compressed, an offset is that of
the block that contains the key, not necessarily as its first key.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.errors import CompressedDataInvalid, LedgerFileInvalid
from delayed_tracker.ledger.offload.local_file import LocalFile, ReadAhead, open_local_file
from delayed_tracker.ledger.offload.sequence_blocks import BlockInvalid, SequenceBlocks
from delayed_tracker.ledger.offload.sequence_file import LONG_WRITABLE, Compression, SequenceHeader, read_header
from delayed_tracker.ledger.offload.sequence_records import SequenceRecords

_METADATA_KEY: Final = -1
_OFFSET_BYTES: Final = 8
_READ_BYTES: Final = 1 << 16
_SCAN_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class MapFileIndex:
    """Some keys and their offsets, both ascending."""

    KEY_INTERVAL: ClassVar[int] = 128
    """Hadoop's default distance between keys."""
    keys: Int64Array
    offsets: Int64Array

    def before(self, key: int) -> tuple[int, int]:
        """Return the highest of the keys that is not above ``key``, and its offset."""
        row = int(np.searchsorted(self.keys, key, side="right")) - 1
        return int(self.keys[row]), int(self.offsets[row])


def index_path(data: LocalFile) -> Path:
    """Return the path of the index of a ``data`` file, existing or not."""
    return data.path.with_name("index")


def open_index(data: LocalFile, header: SequenceHeader, last_key: int) -> MapFileIndex:
    """Read the index beside a ``data`` file, or make one by a scan of the data.

    Raises:
        LedgerFileInvalid: the index file is damaged or does not belong to the data.
        OSError: a file cannot be read.
    Cost: O(index); O(data) without an index file.
    """
    path = index_path(data)
    if not path.exists():
        return _made(data, header, last_key)
    file = open_local_file(path)
    index_header = read_header(file, value_class=LONG_WRITABLE)
    if index_header.compression is not Compression.BLOCK:
        raise _invalid(file, f"its compression is {index_header.compression.value!r}, which no index has")
    keys: list[Int64Array] = []
    offsets: list[Int64Array] = []
    blocks, ahead, at = SequenceBlocks(file, index_header), ReadAhead(file, _READ_BYTES), index_header.end
    while at < file.size_bytes:
        try:
            block = blocks.block_at(ahead, at)
            records = blocks.records(ahead, block)
        except (BlockInvalid, CompressedDataInvalid) as error:
            raise _invalid(file, f"at byte {at}: {error}") from error
        if (records.value_lengths != _OFFSET_BYTES).any():
            raise _invalid(file, f"at byte {at}: a value is no offset")
        keys.append(records.keys)
        offsets.append(np.frombuffer(records.values, ">i8").astype(np.int64))
        at = block.end
    if not any(map(len, keys)):
        raise _invalid(file, "it is empty")
    index = MapFileIndex(np.concatenate(keys), np.concatenate(offsets))
    ascending = (np.diff(index.keys) > 0).all() and (np.diff(index.offsets) > 0).all()
    begins = index.keys[0] == _METADATA_KEY and index.offsets[0] == header.end
    if not ascending or not begins or index.offsets[-1] >= data.size_bytes:
        raise _invalid(file, f"keys and offsets do not ascend from {_METADATA_KEY} at byte {header.end} on")
    return index


def _made(data: LocalFile, header: SequenceHeader, last_key: int) -> MapFileIndex:
    if header.compression is Compression.BLOCK:
        places = _block_places(data, header)
    else:
        records = SequenceRecords(data, header)
        places = list(
            records.positions(
                header.end, _METADATA_KEY, last_key, every=MapFileIndex.KEY_INTERVAL, piece_bytes=_SCAN_BYTES
            )
        )
    if not places or places[0][0] != _METADATA_KEY:
        places.insert(0, (_METADATA_KEY, header.end))
    columns = np.array(places, np.int64)
    return MapFileIndex(columns[:, 0].copy(), columns[:, 1].copy())


def _block_places(data: LocalFile, header: SequenceHeader) -> list[tuple[int, int]]:
    """Return key and offset of each block, without inflating it, up to the first damage.

    Reads of entries behind the damage start at the last block before it.
    """
    blocks, ahead = SequenceBlocks(data, header), ReadAhead(data, _READ_BYTES)
    places = []
    key, at = _METADATA_KEY, header.end
    while at < data.size_bytes:
        try:
            block = blocks.block_at(ahead, at)
        except BlockInvalid:
            break
        places.append((key, at))
        key, at = key + block.count, block.end
    return places


def _invalid(file: LocalFile, what: str) -> LedgerFileInvalid:
    return LedgerFileInvalid(f"{file.name} does not fit its data file: {what}; remove it to read without an index")
