"""Parses and writes BookKeeper's metadata of a ledger.

The value starts with a line: "BookieMetadataFormatVersion", a tab, the version. The rest depends on the version.
Version 3 is a varint length and a LedgerMetadataFormat. Version 2 is a LedgerMetadataFormat in protobuf text format.
Version 1 is lines: write quorum, ensemble size, length, then "first entry TAB bookie TAB ..." per segment, then "last
entry TAB CLOSED". Versions 1, 2 and 3 are read, 2 and 3 are written.
"""

import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat
from delayed_tracker.wire.column_fields import varint

_HEADER: Final = b"BookieMetadataFormatVersion\t"
_IN_RECOVERY_MARK: Final = -102


class LedgerState(IntEnum):
    """State of a ledger. Only a closed ledger has a known end."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """BookKeeper's metadata of one ledger."""

    ledger_id: int
    format_version: int
    state: LedgerState
    last_entry_id: int
    """-1 unless closed; a closed empty ledger has -1 too."""
    payload_bytes: int
    """0 unless closed."""
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    digest_type: DigestType | None
    """None in metadata that is older than the field."""
    password: bytes = field(repr=False)
    segments: tuple[tuple[int, tuple[str, ...]], ...]
    """(first entry id, bookies), ascending."""
    custom: Mapping[str, bytes]
    created_ms: int | None = None
    """Milliseconds since 1970 by the creator's clock; None if it did not store them."""
    creation_token: int | None = None
    """Random number by which the creator knows its own ledger; None in versions 1 and 2."""
    unknown_fields: bytes = field(default=b"", repr=False)
    """Fields of version 3 that this program does not know; :func:`serialize` writes them again."""

    @property
    def closed(self) -> bool:
        """True if the last entry is final."""
        return self.state is LedgerState.CLOSED

    def bookies_of(self, entry_id: int) -> tuple[str, ...]:
        """Return the ensemble of an entry, from 0."""
        return self.segments[self._segments_through(entry_id) - 1][1]

    def entries_with(self, entry_id: int) -> int:
        """Return how many entries from this one on have the same ensemble: all that may follow, in the last segment."""
        after = self._segments_through(entry_id)
        return self.segments[after][0] - entry_id if after < len(self.segments) else sys.maxsize

    def _segments_through(self, entry_id: int) -> int:
        """Return how many segments begin at or before an entry."""
        return bisect_right(self.segments, entry_id, key=lambda segment: segment[0])

    def with_segment(self, first_entry_id: int, bookies: Sequence[str]) -> "LedgerMetadata":
        """Return the metadata with another ensemble from an entry on.

        A segment that begins at the same entry is replaced, because no entry is in it yet. ``first_entry_id`` must not
        be below the last segment's, and there must be ``ensemble_size`` bookies.
        """
        *older, last = self.segments
        assert first_entry_id >= last[0], (first_entry_id, last)
        assert len(bookies) == self.ensemble_size, bookies
        kept = older if first_entry_id == last[0] else self.segments
        return replace(self, segments=(*kept, (first_entry_id, tuple(bookies))))

    def with_state(self, state: LedgerState, *, last_entry_id: int = -1, payload_bytes: int = 0) -> "LedgerMetadata":
        """Return the metadata in another state; the last entry and the length count for a closed ledger alone."""
        assert state is LedgerState.CLOSED or (last_entry_id, payload_bytes) == (-1, 0), state
        return replace(self, state=state, last_entry_id=last_entry_id, payload_bytes=payload_bytes)

    def require_usable(self) -> "LedgerMetadata":
        """Return the metadata if entries can be found with it.

        Raises:
            LedgerMetadataInvalid: sizes or segments contradict each other.
        """
        firsts = [first for first, _ in self.segments]
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble_size:
            fault = (
                f"ack quorum {self.ack_quorum}, write quorum {self.write_quorum} and ensemble size "
                f"{self.ensemble_size}, which must ascend from 1"
            )
        elif not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
            fault = f"segments from entries {firsts}, which must ascend from 0"
        elif any(len(bookies) != self.ensemble_size or not all(bookies) for _, bookies in self.segments):
            fault = f"a segment without {self.ensemble_size} bookies"
        elif self.closed and (self.last_entry_id < -1 or self.payload_bytes < 0):
            fault = f"last entry {self.last_entry_id} and length {self.payload_bytes}"
        else:
            return self
        raise LedgerMetadataInvalid(f"metadata of ledger {self.ledger_id} has {fault}; restore it from a copy")


def parse(ledger_id: int, stored: bytes) -> LedgerMetadata:
    """Parse the value of a ledger's node.

    Args:
        ledger_id: id of the ledger, which the value does not contain.
        stored: the whole value.
    Raises:
        LedgerMetadataInvalid: not such a value, a version this program does not know, or damaged.
    """
    if not stored.startswith(_HEADER):
        raise LedgerMetadataInvalid(
            f"metadata of ledger {ledger_id}: {stored[:28]!r} is not the start of BookKeeper ledger metadata"
        )
    version_text, newline, body = stored[len(_HEADER) :].partition(b"\n")
    version = int(version_text) if version_text.isdigit() and len(version_text) < 10 else -1
    if not newline:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} is cut short in its first line")
    match version:
        case 3:
            return _from_format(ledger_id, version, _parse_binary(ledger_id, body))
        case 2:
            return _from_format(ledger_id, version, _parse_text(ledger_id, body))
        case 1:
            return _parse_lines(ledger_id, body)
        case _:
            raise LedgerMetadataInvalid(
                f"metadata of ledger {ledger_id} has format version {version_text.decode('ascii', 'replace')!r}; "
                "this program reads versions 1, 2 and 3"
            )


def serialize(metadata: LedgerMetadata) -> bytes:
    """Return the value of a ledger's node, in the version that the metadata has; version 2 has no creation token.

    Raises:
        LedgerMetadataInvalid: version 1, which this program only reads.
    """
    if metadata.format_version not in {2, 3}:
        raise LedgerMetadataInvalid(
            f"metadata of ledger {metadata.ledger_id} has format version {metadata.format_version}; this program writes "
            "versions 2 and 3: recover the ledger with BookKeeper's own client"
        )
    header = _HEADER + b"%d\n" % metadata.format_version
    written = _to_format(metadata)
    if metadata.format_version == 2:
        written.ClearField("cToken")
        return header + text_format.MessageToString(written, print_unknown_fields=False).encode("utf-8")
    body = written.SerializeToString(deterministic=True)
    return header + varint(len(body)) + body


def _parse_binary(ledger_id: int, body: bytes) -> LedgerMetadataFormat:
    used = next((count for count, byte in enumerate(body[:5], start=1) if byte < 0x80), 0)
    if not used:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} has no readable length")
    size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(body[:used]))
    if len(body) - used < size:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} is cut short: {len(body) - used} of {size} bytes")
    parsed = LedgerMetadataFormat()
    try:
        parsed.ParseFromString(body[used : used + size])
    except DecodeError as error:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}") from error
    return parsed


def _parse_text(ledger_id: int, body: bytes) -> LedgerMetadataFormat:
    parsed = LedgerMetadataFormat()
    try:
        text_format.Parse(body, parsed)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}") from error
    return parsed


def _from_format(ledger_id: int, version: int, parsed: LedgerMetadataFormat) -> LedgerMetadata:
    if not parsed.IsInitialized():
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} lacks required fields")
    return LedgerMetadata(
        ledger_id=ledger_id,
        format_version=version,
        state=LedgerState(parsed.state),
        last_entry_id=parsed.lastEntryId if parsed.state == LedgerMetadataFormat.CLOSED else -1,
        payload_bytes=parsed.length,
        ensemble_size=parsed.ensembleSize,
        write_quorum=parsed.quorumSize,
        ack_quorum=parsed.ackQuorumSize if parsed.HasField("ackQuorumSize") else parsed.quorumSize,
        digest_type=DigestType(parsed.digestType) if parsed.HasField("digestType") else None,
        password=parsed.password,
        segments=tuple((segment.firstEntryId, tuple(segment.ensembleMember)) for segment in parsed.segment),
        custom={entry.key: entry.value for entry in parsed.customMetadata},
        created_ms=parsed.ctime if parsed.HasField("ctime") else None,
        creation_token=parsed.cToken if parsed.HasField("cToken") else None,
        unknown_fields=_unknown_fields(parsed),
    )


def _to_format(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    made = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.payload_bytes,
        lastEntryId=metadata.last_entry_id,
        state=metadata.state.name,
        segment=[{"firstEntryId": first, "ensembleMember": bookies} for first, bookies in metadata.segments],
        digestType=None if metadata.digest_type is None else metadata.digest_type.name,
        password=None if metadata.digest_type is None else metadata.password,
        ackQuorumSize=metadata.ack_quorum,
        ctime=metadata.created_ms,
        customMetadata=[{"key": key, "value": value} for key, value in metadata.custom.items()],
        cToken=metadata.creation_token,
    )
    if metadata.unknown_fields:
        # MergeFromString takes fields that are missing here, as all required ones are.
        made.MergeFromString(metadata.unknown_fields)
    return made


def _unknown_fields(parsed: LedgerMetadataFormat) -> bytes:
    rest = LedgerMetadataFormat()
    rest.CopyFrom(parsed)
    for known, _ in parsed.ListFields():
        rest.ClearField(known.name)
    return rest.SerializePartialToString()


def _parse_lines(ledger_id: int, body: bytes) -> LedgerMetadata:
    state, last_entry_id = LedgerState.OPEN, -1
    segments = []
    try:
        lines = [line for line in body.decode("utf-8").split("\n") if line]
        write_quorum, ensemble_size, payload_bytes = (int(line) for line in lines[:3])
        for line in lines[3:]:
            first, *rest = line.split("\t")
            if rest == ["CLOSED"]:
                in_recovery = int(first) == _IN_RECOVERY_MARK
                state = LedgerState.IN_RECOVERY if in_recovery else LedgerState.CLOSED
                last_entry_id = -1 if in_recovery else int(first)
            else:
                segments.append((int(first), tuple(bookie for bookie in rest if bookie)))
    except ValueError as error:
        raise LedgerMetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}") from error
    return LedgerMetadata(
        ledger_id=ledger_id,
        format_version=1,
        state=state,
        last_entry_id=last_entry_id,
        payload_bytes=payload_bytes,
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=write_quorum,
        digest_type=None,
        password=b"",
        segments=tuple(segments),
        custom={},
    )
