"""The methods of LedgerService: validate, convert, query the ledgers, convert back.

``methods.py`` turns errors into statuses.
"""
# ruff: noqa: N802  # methods are named as the API names them

from typing import Any, Final, TypeAlias

import grpc

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.messages import MessageId, frame_exposed, without_broker_frames
from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.ledger.topic.entry_pages import EntryPage
from delayed_tracker.service.errors import EntryTooLarge
from delayed_tracker.service.grpc.wire import from_position
from delayed_tracker.service.queries.ledger_access import LedgerAccess
from delayed_tracker.v1 import ledger_pb2, ledger_pb2_grpc

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_MODES: Final = {
    ledger_pb2.INDEX_LOOKUP_MODE_PROPOSAL: IndexLookupMode.PROPOSAL,
    ledger_pb2.INDEX_LOOKUP_MODE_PULSAR_COMPATIBLE: IndexLookupMode.PULSAR_COMPATIBLE,
}


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """Methods of LedgerService over the ledgers that the service was started with. ``methods.py`` serves them."""

    def __init__(self, ledgers: LedgerAccess) -> None:
        self._ledgers = ledgers

    async def GetMessageIdByIndex(
        self, request: ledger_pb2.GetMessageIdByIndexRequest, _context: Context
    ) -> ledger_pb2.GetMessageIdByIndexResponse:
        """See ledger.proto."""
        found = await self._ledgers.message_id_by_index(request.topic, request.index, mode=self._mode(request.mode))
        return ledger_pb2.GetMessageIdByIndexResponse(message_id=_from_message_id(found))

    def _mode(self, given: "ledger_pb2.IndexLookupMode") -> IndexLookupMode:
        if given == ledger_pb2.INDEX_LOOKUP_MODE_UNSPECIFIED:
            return self._ledgers.answers.mode
        if given not in _MODES:
            raise InvalidInput("mode", given, f"give one of {', '.join(ledger_pb2.IndexLookupMode.keys())}")
        return _MODES[given]

    async def SeekByTime(
        self, request: ledger_pb2.SeekByTimeRequest, _context: Context
    ) -> ledger_pb2.SeekByTimeResponse:
        """See ledger.proto."""
        found = await self._ledgers.ask(
            lambda queries: queries.seek_by_time(
                request.topic, request.timestamp_ms, read_compacted=request.read_compacted
            )
        )
        return ledger_pb2.SeekByTimeResponse(position=from_position(found.position), behind_end=found.behind_end)

    async def GetLastMessagePosition(
        self, request: ledger_pb2.GetLastMessagePositionRequest, _context: Context
    ) -> ledger_pb2.GetLastMessagePositionResponse:
        """See ledger.proto."""
        last = await self._ledgers.ask(
            lambda queries: queries.get_last_message_id(request.topic, read_compacted=request.read_compacted)
        )
        return ledger_pb2.GetLastMessagePositionResponse(message_id=_from_message_id(last))

    async def ReadEntries(
        self, request: ledger_pb2.ReadEntriesRequest, _context: Context
    ) -> ledger_pb2.ReadEntriesResponse:
        """See ledger.proto."""
        answers = self._ledgers.answers
        page = await self._ledgers.ask(
            lambda queries: queries.read_entries(
                request.topic,
                Position(request.start.ledger_id, request.start.entry_id) if request.HasField("start") else None,
                entries_max=min(request.max_entries or answers.entries_max, answers.entries_max),
                bytes_max=min(request.max_bytes or answers.bytes_max, answers.bytes_max),
            )
        )
        if page.entries.payload_bytes > answers.bytes_max:
            raise EntryTooLarge(str(next(iter(page.entries.positions))), page.entries.payload_bytes, answers.bytes_max)
        exposed = frame_exposed(
            exposing_enabled=answers.exposes_broker_metadata, protocol_version=request.protocol_version
        )
        return _from_page(page, exposed=exposed)


def _from_message_id(found: MessageId) -> ledger_pb2.MessageId:
    return ledger_pb2.MessageId(
        position=from_position(found.position), partition=found.partition, batch_index=found.batch_index
    )


def _from_page(page: EntryPage, *, exposed: bool) -> ledger_pb2.ReadEntriesResponse:
    entries = page.entries if exposed else without_broker_frames(page.entries)
    response = ledger_pb2.ReadEntriesResponse(
        ledger_ids=entries.ledger_id,
        entry_ids=entries.entry_id,
        payloads=map(entries.payload, range(len(entries))),
        unreadable=map(_unreadable, page.bad_entries),
    )
    if page.next is not None:
        response.next.CopyFrom(from_position(page.next))
    return response


def _unreadable(bad: BadEntry) -> ledger_pb2.UnreadableEntries:
    first = Position(*(-1 if part is None else part for part in (bad.ledger_id, bad.entry_id)))
    return ledger_pb2.UnreadableEntries(first=from_position(first), count=bad.entry_count, reason=bad.reason)
