"""Tests of BookKeeper's ledger metadata in all versions."""

import pytest

from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerState, ledger_paths, parse_ledger_metadata
from tests.ledger.harness.log_files import ledger_value

WORKED_EXAMPLE = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a6d"
    "08021002180020ffffffffffffffffff01280132160a08626b313a333138310a08626b323a333138311000"
    "3803420048025a150a0b6170706c69636174696f6e120670756c736172"
    "5a210a09636f6d706f6e656e74121464656c617965642d696e6465782d6275636b6574602a"
)
HEADER = b"BookieMetadataFormatVersion\t"
TEXT = (
    HEADER
    + b"""2
quorumSize: 2
ensembleSize: 3
length: 4321
lastEntryId: 99
state: CLOSED
segment {
  ensembleMember: "bk1:3181"
  ensembleMember: "bk2:3181"
  ensembleMember: "bk3:3181"
  firstEntryId: 0
}
digestType: HMAC
password: "secret"
ackQuorumSize: 1
customMetadata {
  key: "application"
  value: "pulsar"
}
"""
)


def test_version_3():
    """Worked example L is an open ledger on two bookies with custom metadata."""
    metadata = parse_ledger_metadata(77, WORKED_EXAMPLE)

    assert (metadata.ledger_id, metadata.format_version, metadata.state) == (77, 3, LedgerState.OPEN)
    assert not metadata.closed
    assert (metadata.last_entry_id, metadata.payload_bytes) == (-1, 0)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (2, 2, 2)
    assert (metadata.digest_type, metadata.password) == (DigestType.CRC32C, b"")
    assert metadata.segments == ((0, ("bk1:3181", "bk2:3181")),)
    assert metadata.custom == {"application": b"pulsar", "component": b"delayed-index-bucket"}


def test_version_2_is_the_same_in_text():
    """Version 2 is the same message in text format, which contains field and enum names."""
    metadata = parse_ledger_metadata(5, TEXT)

    assert (metadata.format_version, metadata.state, metadata.closed) == (2, LedgerState.CLOSED, True)
    assert (metadata.last_entry_id, metadata.payload_bytes) == (99, 4321)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 2, 1)
    assert (metadata.digest_type, metadata.password) == (DigestType.HMAC, b"secret")
    assert metadata.segments == ((0, ("bk1:3181", "bk2:3181", "bk3:3181")),)
    assert metadata.custom == {"application": b"pulsar"}


@pytest.mark.parametrize(
    ("last_line", "state", "last_entry_id"),
    [
        (b"", LedgerState.OPEN, -1),
        (b"41\tCLOSED\n", LedgerState.CLOSED, 41),
        (b"-1\tCLOSED\n", LedgerState.CLOSED, -1),
        (b"-102\tCLOSED\n", LedgerState.IN_RECOVERY, -1),
    ],
)
def test_version_1_is_lines(last_line, state, last_entry_id):
    """The last line of version 1 marks the ledger as open, closed, closed and empty, or in recovery."""
    lines = b"2\n3\n777\n0\tbk1:3181\tbk2:3181\tbk3:3181\n10\tbk1:3181\tbk2:3181\tbk4:3181\n"
    metadata = parse_ledger_metadata(5, HEADER + b"1\n" + lines + last_line)

    assert (metadata.format_version, metadata.state, metadata.last_entry_id) == (1, state, last_entry_id)
    assert (metadata.write_quorum, metadata.ack_quorum, metadata.ensemble_size) == (2, 2, 3)
    assert metadata.digest_type is None
    assert [first for first, _ in metadata.segments] == [0, 10]
    assert metadata.segments[1][1] == ("bk1:3181", "bk2:3181", "bk4:3181")


@pytest.mark.parametrize("claimed", [2**32, 2**63 - 1, 10**40])
def test_a_last_entry_that_no_ledger_can_have(claimed):
    """A last entry above 32 bits is damage, which names the entry: what follows would be read for ever."""
    lines = b"2\n3\n777\n0\tbk1:3181\tbk2:3181\tbk3:3181\n%d\tCLOSED\n" % claimed
    with pytest.raises(
        MetadataInvalid, match=f"ledger 5 claims entry {claimed}, and entry ids end at 4294967295; restore"
    ):
        parse_ledger_metadata(5, HEADER + b"1\n" + lines)


@pytest.mark.parametrize("version", [b"4", b"0", b"99999999999999999999", b"x", b"", b"-1", b"\xff"])
def test_unknown_versions_are_refused(version):
    """An unknown version is refused with the ledger, the version, and the known versions."""
    with pytest.raises(MetadataInvalid, match=r"metadata of ledger 5 has format version .*versions 1, 2 and 3"):
        parse_ledger_metadata(5, HEADER + version + b"\nwhatever")


@pytest.mark.parametrize("stored", [b"", b"{}", b"BookieMetadataFormatVersion 3\n", b"\x0a\x04"])
def test_other_values_are_refused(stored):
    """Another value is refused with its first bytes."""
    with pytest.raises(MetadataInvalid, match="is not the start of BookKeeper ledger metadata"):
        parse_ledger_metadata(5, stored)


@pytest.mark.parametrize("stored", [WORKED_EXAMPLE, ledger_value(last_entry_id=3)], ids=["open", "closed"])
def test_version_3_cut_at_every_byte_is_refused(stored):
    """Version 3 that is cut at any byte is refused, because its length is in front."""
    for length in range(len(stored)):
        with pytest.raises(MetadataInvalid, match=r"ledger 5|BookKeeper ledger metadata"):
            parse_ledger_metadata(5, stored[:length])


@pytest.mark.parametrize(
    "body",
    [
        b"2\nquorumSize: x\n",
        b"2\nquorumSize: 2\n",
        b"2\n\xff\xfe\n",
        b"2\nnoSuchField: 2\n",
        b"1\n2\n3\n",
        b"1\n2\nx\n0\n",
        b"1\n2\n3\n0\nnot a number\tbk1:3181\n",
        b"3\n\x02\x08",
        b"3\n\x02\x0f\x0f",
        b"3\n\xff\xff\xff\xff\xff\x01",
        b"3\n\x02\x08\x02",
    ],
)
def test_damaged_bodies_are_refused(body):
    """A damaged body is refused with the ledger and a remedy."""
    with pytest.raises(MetadataInvalid, match=r"metadata of ledger 5 .*take the dump again"):
        parse_ledger_metadata(5, HEADER + body)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (77, "/ledgers/00/0000/L0077"),
        (12345678, "/ledgers/00/1234/L5678"),
        (2147483646, "/ledgers/21/4748/L3646"),
        (2147483647, "/ledgers/000/0000/0021/4748/L3647"),
        (4294967301, "/ledgers/000/0000/0042/9496/L7301"),
    ],
)
def test_paths_by_id(ledger_id, path):
    """The usual layout is the first path, and ids that exceed it have longer paths."""
    assert next(ledger_paths(ledger_id)) == path


def test_other_layouts_are_looked_at_too():
    """The long and the flat layout are searched, too."""
    assert list(ledger_paths(77))[1:] == ["/ledgers/000/0000/0000/0000/L0077", "/ledgers/L0000000077"]


def test_password_is_not_shown():
    """The password is not in the repr, which may be logged."""
    assert "secret" not in repr(parse_ledger_metadata(5, TEXT))
