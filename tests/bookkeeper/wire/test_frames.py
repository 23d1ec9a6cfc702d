"""Tests of frames in pieces: any cut gives the same messages, and a wrong length is refused before memory is taken."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.frames import BULK_RECEIVE_BYTES, RECEIVE_BYTES, FrameInvalid, FrameReader
from tests.bookkeeper.wire.scripted_bookie import framed

LIMIT = 1_000_000


def read_in_pieces(reader: FrameReader, octets: bytes, sizes: list[int]) -> list[bytes]:
    """Give the octets to the reader in pieces of these sizes, over and over."""
    found, at, turn = [], 0, 0
    while at < len(octets):
        room = reader.room()
        count = min(sizes[turn % len(sizes)], len(room), len(octets) - at)
        room[:count] = octets[at : at + count]
        found += [bytes(octets[start:end]) for octets, start, end in reader.received(count)]
        at, turn = at + count, turn + 1
    return found


@given(
    lengths=st.lists(
        st.integers(1, 300) | st.integers(RECEIVE_BYTES - 9, RECEIVE_BYTES + 9) | st.just(5_000) | st.just(200_000),
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, 300) | st.integers(1_000, 100_000), min_size=1, max_size=8),
)
def test_any_cut_gives_the_same_messages(lengths, sizes):
    """Messages do not depend on the pieces in which they arrive, and nothing is left at the end."""
    messages = [bytes([number + 1]) * length for number, length in enumerate(lengths)]
    # Thousands of reads of one byte show nothing new.
    sizes = [max(size, sum(lengths) // 2_000) for size in sizes]
    reader = FrameReader(LIMIT)

    assert read_in_pieces(reader, b"".join(map(framed, messages)), sizes) == messages
    assert reader.held_bytes == 0


@pytest.mark.parametrize("length", [0, -1, -(2**31), LIMIT - 3, 2**31 - 1])
def test_a_wrong_length_is_refused(length):
    """A length below 1, or with its own four bytes above the bound, ends the reading; messages before it count."""
    reader = FrameReader(LIMIT)
    octets = framed(b"good") + struct.pack(">i", length)
    reader.room()[: len(octets)] = octets
    messages = reader.received(len(octets))

    found, start, end = next(messages)
    assert found[start:end] == b"good"
    with pytest.raises(FrameInvalid, match=f"a frame of {length} bytes, where reply_bytes_max allows 1 to {LIMIT - 4}"):
        next(messages)


def test_the_longest_frame_is_read():
    """A frame of just the bound, its length included, is read."""
    message = b"x" * (LIMIT - 4)

    assert read_in_pieces(FrameReader(LIMIT), framed(message), [RECEIVE_BYTES]) == [message]


def test_memory_is_one_frame_and_the_receive_buffer():
    """A bookie that claims the longest frame, and sends all but its end, makes the reader hold no more than that."""
    octets = framed(b"x" * (LIMIT - 4))
    tracemalloc.start()
    try:
        reader = FrameReader(LIMIT)
        assert read_in_pieces(reader, octets[:-1], [RECEIVE_BYTES]) == []
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert reader.held_bytes == LIMIT - 5
    assert held < LIMIT + BULK_RECEIVE_BYTES + 20_000


def test_more_is_received_at_once_behind_frames_of_some_size():
    """Replies to adds are received in small portions, which bounds their time; entries of kilobytes in large ones."""
    reader = FrameReader(LIMIT)
    assert len(reader.room()) == RECEIVE_BYTES
    assert len(read_in_pieces(reader, framed(b"x" * 10_000), [RECEIVE_BYTES])) == 1
    assert len(reader.room()) == BULK_RECEIVE_BYTES
    several = framed(b"x" * 10_000) * 12 + framed(b"reply")
    reader.room()[: len(several)] = several
    assert len(list(reader.received(len(several)))) == 13
    assert len(reader.room()) == RECEIVE_BYTES
