"""Parses BookKeeper's metadata of a ledger, in all three versions of the stored value.

The value starts with a line: "BookieMetadataFormatVersion", a tab, the version. The rest depends on the version.
Version 3 is a varint length and a LedgerMetadataFormat. Version 2 is a LedgerMetadataFormat in protobuf text format.
Version 1 is lines: write quorum, ensemble size, length, then "first entry TAB bookie TAB ..." per segment, then "last
entry TAB CLOSED".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat

_HEADER: Final = b"BookieMetadataFormatVersion\t"
_IN_RECOVERY_MARK: Final = -102
_SHORT_IDS_END: Final = 2**31 - 1


class LedgerState(IntEnum):
    """State of a ledger. Only a closed ledger has a known end."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(IntEnum):
    """Kind of digest that protects each stored entry."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


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

    @property
    def closed(self) -> bool:
        """True if the last entry is final."""
        return self.state is LedgerState.CLOSED


def ledger_paths(ledger_id: int) -> Iterator[str]:
    """Yield the possible nodes of a ledger's metadata, the usual layout first."""
    short, long = f"{ledger_id:010d}", f"{ledger_id:019d}"
    if ledger_id < _SHORT_IDS_END:
        yield f"/ledgers/{short[:2]}/{short[2:6]}/L{short[6:]}"
    yield f"/ledgers/{long[:3]}/{long[3:7]}/{long[7:11]}/{long[11:15]}/L{long[15:]}"
    yield f"/ledgers/L{short}"


def parse_ledger_metadata(ledger_id: int, stored: bytes) -> LedgerMetadata:
    """Parse the value of a ledger's node.

    Args:
        ledger_id: id of the ledger, which the value does not contain.
        stored: the whole value.
    Raises:
        MetadataInvalid: not such a value, a version this program does not know, or damaged.
    """
    if not stored.startswith(_HEADER):
        raise MetadataInvalid(
            f"metadata of ledger {ledger_id}: {stored[:28]!r} is not the start of BookKeeper ledger metadata; "
            "take the dump again"
        )
    version_text, newline, body = stored[len(_HEADER) :].partition(b"\n")
    version = int(version_text) if version_text.isdigit() and len(version_text) < 10 else -1
    if not newline:
        raise MetadataInvalid(f"metadata of ledger {ledger_id} is cut short in its first line; take the dump again")
    match version:
        case 3:
            return _from_format(ledger_id, version, _parse_binary(ledger_id, body))
        case 2:
            return _from_format(ledger_id, version, _parse_text(ledger_id, body))
        case 1:
            return _parse_lines(ledger_id, body)
        case _:
            raise MetadataInvalid(
                f"metadata of ledger {ledger_id} has format version {version_text.decode('ascii', 'replace')!r}; "
                "this program reads versions 1, 2 and 3"
            )


def _parse_binary(ledger_id: int, body: bytes) -> LedgerMetadataFormat:
    used = next((count for count, byte in enumerate(body[:5], start=1) if byte < 0x80), 0)
    if not used:
        raise MetadataInvalid(f"metadata of ledger {ledger_id} has no readable length; take the dump again")
    size = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(body[:used]))
    if len(body) - used < size:
        raise MetadataInvalid(
            f"metadata of ledger {ledger_id} is cut short: {len(body) - used} of {size} bytes; take the dump again"
        )
    parsed = LedgerMetadataFormat()
    try:
        parsed.ParseFromString(body[used : used + size])
    except DecodeError as error:
        raise MetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}; take the dump again") from error
    return parsed


def _parse_text(ledger_id: int, body: bytes) -> LedgerMetadataFormat:
    parsed = LedgerMetadataFormat()
    try:
        text_format.Parse(body, parsed)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise MetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}; take the dump again") from error
    return parsed


def _from_format(ledger_id: int, version: int, parsed: LedgerMetadataFormat) -> LedgerMetadata:
    if not parsed.IsInitialized():
        raise MetadataInvalid(f"metadata of ledger {ledger_id} lacks required fields; take the dump again")
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
    )


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
        raise MetadataInvalid(f"metadata of ledger {ledger_id} does not parse: {error}; take the dump again") from error
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
