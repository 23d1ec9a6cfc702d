"""Exchanges of the calls about ledgers. They change nothing."""

from collections.abc import Mapping
from typing import Final

from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import Position
from delayed_tracker.client.model.bounds import UINT32_MAX, bounded, flag, instant_ms, place_message, require_type, text
from delayed_tracker.client.model.exchange import Exchange, ask
from delayed_tracker.client.model.ledger_answers import (
    EntryPage,
    IndexLookupMode,
    MessageId,
    StoredEntry,
    TimeSeek,
    UnreadableEntries,
)
from delayed_tracker.v1 import ledger_pb2 as pb
from delayed_tracker.wire.columns import INT63_MAX

_MODES: Final[Mapping[IndexLookupMode | None, "pb.IndexLookupMode"]] = {
    None: pb.INDEX_LOOKUP_MODE_UNSPECIFIED,
    IndexLookupMode.PROPOSAL: pb.INDEX_LOOKUP_MODE_PROPOSAL,
    IndexLookupMode.PULSAR_COMPATIBLE: pb.INDEX_LOOKUP_MODE_PULSAR_COMPATIBLE,
}
_INT32_MAX: Final = 2**31 - 1
PAGE_ENTRIES: Final = 1_000
PAGE_BYTES: Final = 8 * 2**20
"""Most payload bytes of a page: well below the client's limit for one answer, so that several fit into memory."""


class LedgerRules:
    """Calls about ledgers, as exchanges."""

    def get_message_id_by_index(self, topic: str, index: int, *, mode: IndexLookupMode | None) -> Exchange[MessageId]:
        """Call GetMessageIdByIndex."""
        if mode is not None:
            require_type("mode", mode, IndexLookupMode, "give an IndexLookupMode, or None")
        request = pb.GetMessageIdByIndexRequest(
            topic=text("topic", topic),
            index=bounded("index", index, minimum=0, maximum=INT63_MAX),
            mode=_MODES[mode],
        )
        answer = yield from ask("GetMessageIdByIndex", request, pb.GetMessageIdByIndexResponse)
        return _message_id(answer.message_id)

    def seek_by_time(self, topic: str, timestamp_ms: int, *, read_compacted: bool) -> Exchange[TimeSeek]:
        """Call SeekByTime."""
        request = pb.SeekByTimeRequest(
            topic=text("topic", topic),
            timestamp_ms=instant_ms("timestamp_ms", timestamp_ms),
            read_compacted=flag("read_compacted", read_compacted),
        )
        answer = yield from ask("SeekByTime", request, pb.SeekByTimeResponse)
        return TimeSeek(convert.position(answer.position), answer.behind_end)

    def get_last_message_position(self, topic: str, *, read_compacted: bool) -> Exchange[MessageId]:
        """Call GetLastMessagePosition."""
        request = pb.GetLastMessagePositionRequest(
            topic=text("topic", topic), read_compacted=flag("read_compacted", read_compacted)
        )
        answer = yield from ask("GetLastMessagePosition", request, pb.GetLastMessagePositionResponse)
        return _message_id(answer.message_id)

    def read_entries(
        self, topic: str, start: Position | None, *, page_entries: int, page_bytes: int, protocol_version: int
    ) -> Exchange[EntryPage]:
        """Call ReadEntries for one page."""
        request = pb.ReadEntriesRequest(
            topic=text("topic", topic),
            start=None if start is None else place_message("start", start),
            max_entries=bounded("page_entries", page_entries, minimum=1, maximum=UINT32_MAX),
            max_bytes=bounded("page_bytes", page_bytes, minimum=1, maximum=UINT32_MAX),
            protocol_version=bounded("protocol_version", protocol_version, minimum=0, maximum=_INT32_MAX),
        )
        answer = yield from ask("ReadEntries", request, pb.ReadEntriesResponse)
        rows = zip(answer.ledger_ids, answer.entry_ids, answer.payloads, strict=True)
        return EntryPage(
            tuple(StoredEntry(Position(ledger_id, entry_id), payload) for ledger_id, entry_id, payload in rows),
            tuple(UnreadableEntries(convert.position(row.first), row.count, row.reason) for row in answer.unreadable),
            convert.position(answer.next) if answer.HasField("next") else None,
        )


def _message_id(message: pb.MessageId) -> MessageId:
    return MessageId(convert.position(message.position), message.partition, message.batch_index)
