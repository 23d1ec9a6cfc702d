"""Tests of the exposure of broker frames to readers (PIP-90)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.entry.frame import split_frame
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.messages import MessageOptions, MessageReader, frame_exposed, without_broker_frames
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import batch, single, slot


@pytest.mark.parametrize(
    ("enabled", "version", "exposed"), [(True, 18, True), (True, 21, True), (True, 17, False), (False, 21, False)]
)
def test_a_frame_is_exposed_by_setting_and_protocol(enabled, version, exposed):
    """A frame is exposed only if the setting is on and the client's protocol version supports it."""
    assert frame_exposed(exposing_enabled=enabled, protocol_version=version) is exposed


def test_a_reader_that_is_not_shown_frames_gets_neither_time_nor_index():
    """A reader without frames gets neither broker time nor index, and all else unchanged."""
    log = topic_of({1: [single(b"a", index=0), batch([slot(0, b"b"), slot(1, b"c")], index=2)]})

    shown = list(MessageReader(log).read())
    hidden = list(MessageReader(log, MessageOptions(expose_broker_frame=False)).read())

    assert [message.index for message in shown] == [0, 1, 2]
    assert {message.broker_publish_time_ms for message in shown} == {1_700_000_000_005}
    assert {(message.index, message.broker_publish_time_ms) for message in hidden} == {(None, None)}
    assert [message.payload for message in hidden] == [b"a", b"b", b"c"]


@given(st.lists(st.tuples(st.binary(max_size=5), st.none() | st.integers(0, 2**63)), max_size=8))
def test_stripped_entries_are_the_clients_bytes(rows):
    """An entry without its frame is what the producer sent, at any place in the buffer."""
    stored = StoredEntries.of(1, range(len(rows)), [single(payload, index=index) for payload, index in rows])

    stripped = without_broker_frames(stored)

    assert [stripped.payload(row) for row in range(len(rows))] == [single(payload) for payload, _ in rows]
    assert stripped.buffer is stored.buffer


@pytest.mark.parametrize(
    "entry", [b"", b"\x0e", b"\x0e\x02\0\0\0", b"\x0e\x02\xff\xff\xff\xff...", b"\x0e\x02\0\0\0\x04..."]
)
def test_a_frame_that_is_cut_short_stays(entry):
    """A frame that is cut short is not removed, and no bytes behind the entry are read."""
    stored = StoredEntries.of(1, [0, 1], [entry, single(b"next", index=3)])

    stripped = without_broker_frames(stored)

    assert stripped.payload(0) == entry
    assert split_frame(stripped.payload(1)).broker_start == -1
