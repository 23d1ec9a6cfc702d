"""Tests of splitting batches into messages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages.batch import Slot, join_batch, split_batch
from delayed_tracker.pulsar.v1.entry_pb2 import SingleMessageMetadata
from tests.ledger.messages.producer import metadata_of, slot

slots_of_any_size = st.lists(
    st.builds(
        lambda body, key: slot(0, body) if key is None else slot(0, body, partition_key=key),
        st.binary(max_size=20),
        st.none() | st.text(max_size=5),
    ),
    max_size=6,
)


def as_batch(slots: list[Slot]) -> list[Slot]:
    return [Slot(index, single.metadata, single.body) for index, single in enumerate(slots)]


def test_two_messages():
    """Worked example C is a batch of two messages."""
    payload = bytes.fromhex("00000007120161180140004100000007120162180240014242")

    first, second = split_batch(metadata_of(num_messages_in_batch=2), payload)

    assert (first.batch_index, first.metadata.partition_key, first.body) == (0, "a", b"A")
    assert (second.batch_index, second.metadata.partition_key, second.body) == (1, "b", b"BB")


@given(slots_of_any_size)
def test_batches_round_trip(slots):
    """Batches round-trip, including empty bodies and empty batches."""
    slots = as_batch(slots)
    assert split_batch(metadata_of(num_messages_in_batch=len(slots)), join_batch(slots)) == slots


def test_all_slots_are_there():
    """A batch with all slots, as Pulsar's compactor writes it, marks dropped slots, which are empty."""
    dropped = Slot(0, SingleMessageMetadata(payload_size=0, compacted_out=True), b"")
    metadata = metadata_of(num_messages_in_batch=3, compacted_batch_indexes=[1])

    slots = split_batch(metadata, join_batch([dropped, slot(1, b"kept"), dropped]))

    assert join_batch([dropped]).hex() == "0000000418002001"
    assert [(single.batch_index, single.metadata.compacted_out) for single in slots] == [
        (0, True),
        (1, False),
        (2, True),
    ]


def test_only_the_retained_slots_are_there():
    """A batch with only its retained slots, as the proposal describes it, has their numbers in the metadata."""
    metadata = metadata_of(num_messages_in_batch=9, compacted_batch_indexes=[2, 7])

    slots = split_batch(metadata, join_batch([slot(0, b"two"), slot(0, b"seven")]))

    assert [(single.batch_index, single.body) for single in slots] == [(2, b"two"), (7, b"seven")]


@pytest.mark.parametrize("retained", [[7, 2], [2, 2], [-1, 3], [2, 9]])
def test_retained_slots_outside_of_the_batch_are_refused(retained):
    """Retained slots must ascend and be inside of the batch."""
    metadata = metadata_of(num_messages_in_batch=9, compacted_batch_indexes=retained)
    with pytest.raises(PayloadInvalid, match=re.escape(f"retained slots {retained} do not ascend")):
        split_batch(metadata, join_batch([slot(0, b"a"), slot(0, b"b")]))


def test_another_number_of_messages_than_promised_is_refused():
    """A batch is refused if its number of messages is neither that of all slots nor that of the retained ones."""
    two = join_batch([slot(0, b"a"), slot(1, b"b")])
    with pytest.raises(PayloadInvalid, match="the payload has 2 messages instead of 3"):
        split_batch(metadata_of(num_messages_in_batch=3), two)
    with pytest.raises(PayloadInvalid, match="7 bytes remain after the last of 1 messages"):
        split_batch(metadata_of(num_messages_in_batch=1), two)
    with pytest.raises(PayloadInvalid, match="has 2 messages instead of 4 or 3"):
        split_batch(metadata_of(num_messages_in_batch=4, compacted_batch_indexes=[0, 1, 2]), two)
    with pytest.raises(PayloadInvalid, match="instead of -1"):
        split_batch(metadata_of(num_messages_in_batch=-1), two)


def test_a_batch_cut_anywhere_is_refused():
    """A batch that is cut at any byte is refused."""
    payload = join_batch([slot(0, b"a" * 5, partition_key="k"), slot(1, b"")])
    for length in range(len(payload)):
        with pytest.raises(PayloadInvalid):
            split_batch(metadata_of(num_messages_in_batch=2), payload[:length])


@given(payload=st.binary(max_size=60), count=st.integers(-(2**31), 2**31 - 1))
def test_any_bytes_are_a_batch_or_an_error(payload, count):
    """Any bytes are a batch or an error, and a claimed number of messages allocates nothing."""
    try:
        slots = split_batch(metadata_of(num_messages_in_batch=count), payload)
    except PayloadInvalid:
        return
    assert len(slots) == count
    assert sum(len(single.body) for single in slots) <= len(payload)
