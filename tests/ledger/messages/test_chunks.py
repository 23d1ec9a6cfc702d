"""Tests of assembling chunked messages."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, PayloadInvalid
from delayed_tracker.ledger.messages import MessageOptions, MessageReader
from delayed_tracker.ledger.messages.chunks import PIECE_OVERHEAD_BYTES, ChunkAssembler
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import chunks, metadata_of, single


def read(entries: list[bytes], **options) -> tuple[list[bytes], MessageReader]:
    reader = MessageReader(topic_of({1: entries}), MessageOptions(**options))
    return [message.payload for message in reader.read()], reader


def reasons(reader: MessageReader) -> list[str]:
    return [str(incomplete) for incomplete in reader.incomplete]


def test_pieces_of_several_messages_lie_between_each_other():
    """Each message is returned at its last chunk and has the position of its first, even if they are interleaved."""
    one, two = chunks(b"abcdef", 2, uuid="one"), chunks(b"ABCD", 2, uuid="two")
    reader = MessageReader(topic_of({1: [one[0], two[0], single(b"-"), one[1], two[1], one[2]]}))

    messages = list(reader.read())

    assert [(message.payload, message.id.entry_id) for message in messages] == [(b"-", 2), (b"ABCD", 4), (b"abcdef", 5)]
    assert [message.id.first_chunk for message in messages] == [None, (1, 1), (1, 0)]
    assert reader.incomplete == []


@pytest.mark.parametrize("codec", Codec)
def test_compression_is_undone_once_the_message_is_whole(codec):
    """Chunks split the compressed bytes, so a message is decompressed after its last chunk."""
    payload = random.Random(4).randbytes(300) * 3
    assert read(chunks(payload, 50, uuid="u", codec=codec))[0] == [payload]


def test_a_producer_that_begins_anew():
    """If a producer sends a message again, its first attempt is discarded and the second is the message."""
    pieces = chunks(b"abcdef", 2, uuid="u")

    payloads, reader = read([pieces[0], pieces[1], *pieces])

    assert payloads == [b"abcdef"]
    assert reasons(reader) == ["message 'u' in pieces from 1:0 to 1:1: the producer began it anew"]


def test_a_piece_sent_again_is_ignored():
    """A chunk that is sent again, the latest or an earlier one, is ignored."""
    first, second, third = chunks(b"abcdef", 2, uuid="u")
    payloads, reader = read([first, second, second, second, third])
    assert (payloads, reader.incomplete) == ([b"abcdef"], [])


def test_missing_pieces_are_reported():
    """Missing chunks at any place are reported without an error, and do not affect other messages."""
    first, second, third = chunks(b"abcdef", 2, uuid="u")

    payloads, reader = read([first, third, single(b"-")])
    assert payloads == [b"-"]
    assert reasons(reader) == ["message 'u' in pieces from 1:0 to 1:0: chunk 1 of 3 is missing"]

    payloads, reader = read([first, second])
    assert payloads == []
    assert reasons(reader) == ["message 'u' in pieces from 1:0 to 1:1: the entries end before chunk 2 of 3"]

    payloads, reader = read([second, third])
    assert payloads == []
    assert reasons(reader)[0] == "message 'u' in pieces from 1:0 to 1:0: nothing before chunk 1 was seen"


def test_the_memory_of_unfinished_messages_is_bounded():
    """Beyond the memory limit, the oldest unfinished message is given up, and the others can still be finished."""
    old, new = chunks(b"o" * 30, 10, uuid="old"), chunks(b"n" * 20, 10, uuid="new")

    bytes_max = 29 + 3 * PIECE_OVERHEAD_BYTES
    payloads, reader = read([old[0], old[1], new[0], old[2], new[1]], pending_chunk_bytes_max=bytes_max)

    assert payloads == [b"n" * 20]
    assert f"unfinished messages hold more than {bytes_max} bytes" in reasons(reader)[0]
    assert reader.incomplete[0].uuid == "old"


def test_a_message_that_is_finished_frees_its_share():
    """A finished message frees its memory, so ten messages in a row need the memory of one."""
    entries = [piece for number in range(10) for piece in chunks(b"x" * 20, 10, uuid=str(number))]
    payloads, reader = read(entries, pending_chunk_bytes_max=10 + PIECE_OVERHEAD_BYTES)
    assert (len(payloads), reader.incomplete) == (10, [])


def test_pieces_without_bytes_are_held_in_bounds():
    """Chunks without bytes count against the memory limit, too."""
    assembler = ChunkAssembler(pending_bytes_max=10 * PIECE_OVERHEAD_BYTES, message_bytes_max=100)
    for number in range(1000):
        fields = {"chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}
        assembler.add(Position(1, number), metadata_of(uuid=str(number), **fields), b"")
    assert len(assembler.incomplete) == 990


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"chunk_id": 2}, "chunk 2 of 2"),
        ({"chunk_id": -1}, "chunk -1 of 2"),
        ({"total_chunk_msg_size": 101}, "of 101 bytes in all"),
        ({"total_chunk_msg_size": 0}, "of 0 bytes in all"),
    ],
)
def test_impossible_claims_are_refused(fields, why):
    """A chunk with impossible claims is refused, and no memory is allocated for it."""
    assembler = ChunkAssembler(pending_bytes_max=1000, message_bytes_max=100)
    given = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 4} | fields
    with pytest.raises(PayloadInvalid, match=why):
        assembler.add(Position(1, 0), metadata_of(**given), b"ab")
    assembler.finish()
    assert assembler.incomplete == []


@pytest.mark.parametrize(("total", "second", "why"), [(9, b"cd", "announced"), (3, b"cd", "announced")])
def test_pieces_that_do_not_add_up_are_refused(total, second, why):
    """Chunks with more or fewer bytes than announced are refused."""
    assembler = ChunkAssembler(pending_bytes_max=1000, message_bytes_max=100)
    fields = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": total}
    assembler.add(Position(1, 0), metadata_of(chunk_id=0, **fields), b"ab")
    with pytest.raises(PayloadInvalid, match=f"have 4 bytes of a message of {total}"):
        assembler.add(Position(1, 1), metadata_of(chunk_id=1, **fields), second)
    assert why in assembler.incomplete[0].reason


def test_pieces_that_disagree_are_refused():
    """A later chunk that announces other values than the first is refused."""
    first, second = chunks(b"abcd", 2, uuid="u")[0], chunks(b"abcdef", 2, uuid="u")[1]
    with pytest.raises(EntriesUnreadable, match="entry 1:1: chunk 1 says 3 chunks of 6 bytes in all"):
        read([first, second])
    payloads, reader = read([first, second, single(b"-")], on_error=ErrorPolicy.SKIP)
    assert payloads == [b"-"]
    assert len(reader.bad_entries) == len(reader.incomplete) == 1


@given(
    messages=st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.integers(1, 10)), max_size=5),
    seed=st.randoms(use_true_random=False),
)
def test_any_interleaving_gives_each_message_once(messages, seed):
    """Any interleaving gives each message once, in the order of their last chunks."""
    queues = [chunks(payload, size, uuid=str(number)) for number, (payload, size) in enumerate(messages)]
    payload_of = dict(enumerate(payload for payload, _ in messages))
    entries, wanted = [], []
    pending = {number: list(queue) for number, queue in enumerate(queues)}
    while pending:
        number = seed.choice(sorted(pending))
        entries.append(pending[number].pop(0))
        if not pending[number]:
            del pending[number]
            wanted.append(payload_of[number])

    payloads, reader = read(entries)

    assert payloads == wanted
    assert reader.incomplete == []
