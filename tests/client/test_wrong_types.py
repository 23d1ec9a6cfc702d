"""Tests that values of a wrong type raise InvalidInput with the field before anything is sent."""

import pytest

from delayed_tracker.client import (
    ClientSettings,
    DelayedTrackerClient,
    InvalidInput,
    NotConnected,
    SessionClosed,
    blocking,
)
from tests.client.conftest import TOPIC

OF_A_CLIENT = [
    ("topic", lambda client: client.open_tracker(None, "s")),
    ("subscription", lambda client: client.open_tracker("t", 5)),
    ("owner", lambda client: client.open_tracker("t", "s", owner=b"me")),
    ("mark_delete", lambda client: client.open_tracker("t", "s", mark_delete=5)),
    ("mark_delete", lambda client: client.open_tracker("t", "s", mark_delete=(1, 2, 3))),
    ("mark_delete.ledger_id", lambda client: client.open_tracker("t", "s", mark_delete=("1", 2))),
    ("topic", lambda client: client.delete_tracker(None, "s")),
    ("topic_prefix", lambda client: anext(aiter(client.list_trackers(5)))),
    ("page_size", lambda client: anext(aiter(client.list_trackers(page_size="9")))),
    ("bucket_count", lambda client: client.import_snapshots("t", "s", [], bucket_count=None)),
    ("snapshots", lambda client: client.import_snapshots("t", "s", None, bucket_count=0)),
    ("snapshots", lambda client: client.import_snapshots("t", "s", [5], bucket_count=1)),
    ("topic", lambda client: client.ledgers.seek_by_time(None, 0)),
    ("timestamp_ms", lambda client: client.ledgers.seek_by_time("t", 0.5)),
    ("read_compacted", lambda client: client.ledgers.seek_by_time("t", 0, read_compacted="no")),
    ("mode", lambda client: client.ledgers.get_message_id_by_index("t", 0, mode="PROPOSAL")),
    ("start", lambda client: anext(aiter(client.ledgers.read_entries("t", "1:2")))),
]
OF_A_SESSION = [
    ("max_messages", lambda session: session.poll("1")),
    ("max_messages", lambda session: session.poll(None)),
    ("wait_ms", lambda session: session.poll(1, wait_ms=0.5)),
    ("lease_ms", lambda session: session.poll(1, lease_ms="9")),
    ("max_messages", lambda session: session.poll_hand_off([])),
    ("deliver_at_ms", lambda session: session.add("5", 1, 1)),
    ("deliver_at_ms", lambda session: session.add_columns(None, [1], [1])),
    ("ledger_ids", lambda session: session.add_columns([1], {"a"}, [1])),
    ("batches", lambda session: anext(aiter(session.add_stream(5)))),
    ("ledger_ids", lambda session: session.ack(1, 5, 5)),
    ("lease_id", lambda session: session.ack("1", [1], [1])),
    ("lease_id", lambda session: session.ack_whole(-1, [1], [1])),
    ("lease_id", lambda session: session.nack(None, [1], [1])),
    ("deliver_at_ms", lambda session: session.nack(1, [1], [1], deliver_at_ms="soon")),
    ("lease_id", lambda session: session.extend(1.5, 1_000)),
    ("lease_ms", lambda session: session.extend(1, "1")),
    ("ledger_ids", lambda session: session.cancel(None, None)),
    ("ledger_ids", lambda session: session.reschedule([1], None, [1])),
    ("deliver_at_ms", lambda session: session.reschedule("soon", [1], [1])),
    ("mark_delete.entry_id", lambda session: session.advance_mark_delete(1, None)),
    ("mark_delete", lambda session: session.reset_cursor("1:2")),
    ("ledger_ids", lambda session: session.contains(5, 5)),
    ("ranges", lambda session: session.filter_entries(None)),
    ("ranges", lambda session: session.filter_entries([5])),
    ("ranges", lambda session: session.filter_entries([(1, "2", 3)])),
    ("max_messages", lambda session: session.peek("9")),
    ("from_ms", lambda session: session.peek(9, from_ms=None)),
    ("ledger_id", lambda session: session.explain("1", 2)),
    ("step_ms", lambda session: session.histogram(from_ms=0, step_ms=None, bar_count=1)),
]


def names(cases) -> list[str]:
    return [f"{place}-{field}" for place, (field, _) in enumerate(cases)]


@pytest.mark.parametrize(("field", "call"), OF_A_CLIENT, ids=names(OF_A_CLIENT))
async def test_a_client_refuses_values_of_a_wrong_type(client, field, call):
    """A wrong type raises no bare TypeError or AttributeError."""
    with pytest.raises(InvalidInput, match="is not valid; ") as refused:
        await call(client)
    assert refused.value.field == field


async def test_a_session_refuses_values_of_a_wrong_type(service, session):
    """Every call of a session refuses wrong types and sends nothing."""
    for field, call in OF_A_SESSION:
        with pytest.raises(InvalidInput, match="is not valid; ") as refused:
            await call(session)
        assert refused.value.field == field
    assert [name for name, _ in service.requests] == ["OpenTracker"]


@pytest.mark.parametrize(
    "given",
    [
        {"call_timeout_s": "x"},
        {"call_timeout_s": float("nan")},
        {"open_timeout_s": float("inf")},
        {"connect_timeout_s": 0},
        {"verify_timeout_s": 1e300},
        {"flush_delay_s": None},
        {"flush_delay_s": -0.1},
        {"batch_max": "9"},
        {"flush_count": 1.5},
        {"wait_for_ready": "no"},
    ],
    ids=str,
)
def test_settings_refuse_what_no_clock_or_count_can_be(given):
    """The error contains the field and the value."""
    ((field, value),) = given.items()
    with pytest.raises(InvalidInput, match="is not valid; give ") as refused:
        ClientSettings(**given)
    assert (refused.value.field, str(refused.value.value)) == (field, str(value))


@pytest.mark.parametrize("kind", [DelayedTrackerClient, blocking.DelayedTrackerClient])
@pytest.mark.parametrize(("field", "given"), [("address", {"address": 7650}), ("settings", {"settings": {}})])
def test_a_connection_is_to_an_address_with_settings(kind, field, given):
    """A wrong address or wrong settings are refused by ``connect``, before the context is entered."""
    with pytest.raises(InvalidInput) as refused:
        kind.connect(**({"address": "127.0.0.1:7650"} | given))
    assert refused.value.field == field


async def test_a_client_that_was_not_entered_says_how_it_is(service):
    """The error of a client that was not entered contains the statement that enters it."""
    client = DelayedTrackerClient.connect(service.address)
    with pytest.raises(NotConnected, match=r"`async with DelayedTrackerClient\.connect"):
        await client.open_tracker(TOPIC, "billing")
    with pytest.raises(NotConnected, match="async with"):
        _ = client.ledgers
    waiting = blocking.DelayedTrackerClient.connect(service.address)
    with pytest.raises(NotConnected, match=r"`with DelayedTrackerClient\.connect"):
        waiting.open_tracker(TOPIC, "billing")
    assert service.requests == []


async def test_a_client_connects_once(service):
    """A client is refused if it is entered again, because the first context would close the shared connection."""
    connecting = DelayedTrackerClient.connect(service.address)
    async with connecting as client:
        assert client is connecting
        with pytest.raises(SessionClosed, match="connect again"):
            await connecting.__aenter__()
    with pytest.raises(SessionClosed, match="connect again"):
        await client.open_tracker(TOPIC, "billing")
