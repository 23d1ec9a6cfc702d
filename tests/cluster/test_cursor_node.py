"""Tests of the cursor's node: bucket properties change, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.cluster.cursor_node import BUCKET_PREFIX, BucketProperty, CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid
from delayed_tracker.ledger.compression import Codec, compress
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb

EXAMPLE = bytes.fromhex(
    "080c100518ffffffffffffffffff0142290a232370756c7361722e696e7465726e616c2e64656c617965642e6275636b65745f355f3512023737"
)
"""A node as a broker wrote it: ledger 12, mark-delete 5:-1, the bucket of ledger 5 in ledger 77."""


def info(*properties: BucketProperty) -> pb.ManagedCursorInfo:
    made = pb.ManagedCursorInfo(cursors_ledger_id=12, mark_delete_ledger_id=5, mark_delete_entry_id=-1, last_active=9)
    made.cursor_properties.add(name="owner", value="somebody")
    for each in properties:
        made.cursor_properties.add(name=each.name, value=each.value)
    made.properties.add(name="count", value=-7)
    made.batched_entry_deletion_index_info.add(position={"ledger_id": 5, "entry_id": 3}, delete_set=[-1, 5])
    return made


def compressed(plain: bytes, codec: int) -> bytes:
    header = pb.ManagedCursorInfoMetadata(compression_type=codec, uncompressed_size=len(plain)).SerializeToString()
    return b"\x47\x78" + len(header).to_bytes(4, "big") + header + compress(codec, plain)


def test_a_broker_s_node():
    """The bytes of a broker are read, and written again as they were."""
    node = CursorNode.decode(EXAMPLE)
    assert node.buckets == (BucketProperty.of(5, 5, 77),)
    assert (node.buckets[0].ledgers, node.buckets[0].bucket_id) == ((5, 5), 77)
    assert node.with_buckets(node.buckets).encode() == EXAMPLE
    assert node.with_buckets([]).encode() == EXAMPLE[: EXAMPLE.index(b"\x42")]


@pytest.mark.parametrize("codec", [None, *Codec])
def test_other_fields_and_the_compression_stay(codec):
    """With unknown fields and properties of users around, only bucket properties are replaced."""
    old, kept = BucketProperty.of(1, 2, 50), BucketProperty.of(3, 3, 51)
    # Unknown fields of all wire types, one in front and one behind.
    unknown = b"\xf8\x7f\x05\xf9\x7f12345678"
    plain = b"\xfd\x7f1234" + info(old, kept).SerializeToString() + unknown
    stored = plain if codec is None else compressed(plain, codec)
    node = CursorNode.decode(stored)
    assert node.buckets == (old, kept)
    new = BucketProperty.of(1, 2, 60)
    written = node.with_buckets([new, kept])
    again = CursorNode.decode(written.encode())
    assert set(again.buckets) == {new, kept}
    assert again.header is None or pb.ManagedCursorInfoMetadata.FromString(again.header).compression_type == codec
    assert (again.header is None) == (codec is None)
    without = pb.StringProperty(name=old.name, value=old.value).SerializeToString()
    removed = plain.replace(b"\x42" + bytes([len(without)]) + without, b"")
    assert len(removed) < len(plain)
    assert again.plain.startswith(removed)
    assert node.with_buckets([old, kept]).plain == plain


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 2**63 - 1)), max_size=6),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 2**63 - 1)), max_size=6),
)
def test_any_properties_are_replaced_by_any(before, after):
    """A written value is read, and all else is the same message."""
    old = {one.name: one for one in (BucketProperty.of(*row) for row in before)}
    new = {one.name: one for one in (BucketProperty.of(*row) for row in after)}
    node = CursorNode.decode(info(*old.values()).SerializeToString())
    written = CursorNode.decode(node.with_buckets([*new.values()]).encode())
    assert set(written.buckets) == set(new.values())
    assert written.with_buckets([]).info == info()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (BUCKET_PREFIX, "1"),
        (f"{BUCKET_PREFIX}_1", "1"),
        (f"{BUCKET_PREFIX}_1_2_3", "1"),
        (f"{BUCKET_PREFIX}x_1_2", "1"),
        (f"{BUCKET_PREFIX}_2_1", "1"),
        (f"{BUCKET_PREFIX}_-1_1", "1"),
        (f"{BUCKET_PREFIX}_1_{2**63}", "1"),
    ],
)
def test_malformed_names(name, value):
    """They are read, with no range, and stay or go as the others."""
    node = CursorNode.decode(info(BucketProperty(name, value)).SerializeToString())
    assert node.buckets[0].ledgers is None
    assert node.with_buckets(node.buckets).encode() == node.plain
    assert node.with_buckets([]).buckets == ()


@pytest.mark.parametrize("value", ["", "x", "-1", "1.0", str(2**63), "9" * 5_000, "\u0663"])
def test_malformed_values(value):
    """A value that is no ledger id has none."""
    assert BucketProperty(f"{BUCKET_PREFIX}_1_2", value).bucket_id is None


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xff\xff",
        EXAMPLE[:-1],
        EXAMPLE[2:],
        b"\x47\x78",
        b"\x47\x78\x00\x00\x00\x09\x08",
        b"\x47\x78\x00\x00\x00\x04\x08\x01\x10\x7f\x00",
        b"\x47\x78\x00\x00\x00\x02\x08\x01",
        b"\x47\x78\xff\xff\xff\xff\x08\x01",
        compressed(b"\x08\x01", 0)[:-1] + b"\x80",
    ],
)
def test_damage_is_an_error_with_the_cursor_s_name(stored):
    """Nothing is guessed of a node that does not decode."""
    with pytest.raises(ClusterNodeInvalid, match="the node of cursor 'a' does not decode"):
        CursorNode.decode(stored, "cursor 'a'")


def test_a_bomb_is_not_decompressed():
    """A compressed value that claims to be huge is refused before anything is allocated."""
    header = pb.ManagedCursorInfoMetadata(compression_type=1, uncompressed_size=2**31 - 1).SerializeToString()
    with pytest.raises(ClusterNodeInvalid, match="out of range"):
        CursorNode.decode(b"\x47\x78" + len(header).to_bytes(4, "big") + header + b"\0" * 100)
