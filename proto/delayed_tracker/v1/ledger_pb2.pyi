from delayed_tracker.v1 import tracker_pb2 as _tracker_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IndexLookupMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INDEX_LOOKUP_MODE_UNSPECIFIED: _ClassVar[IndexLookupMode]
    INDEX_LOOKUP_MODE_PROPOSAL: _ClassVar[IndexLookupMode]
    INDEX_LOOKUP_MODE_PULSAR_COMPATIBLE: _ClassVar[IndexLookupMode]
INDEX_LOOKUP_MODE_UNSPECIFIED: IndexLookupMode
INDEX_LOOKUP_MODE_PROPOSAL: IndexLookupMode
INDEX_LOOKUP_MODE_PULSAR_COMPATIBLE: IndexLookupMode

class MessageId(_message.Message):
    __slots__ = ("position", "partition", "batch_index")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    position: _tracker_pb2.Position
    partition: int
    batch_index: int
    def __init__(self, position: _Optional[_Union[_tracker_pb2.Position, _Mapping]] = ..., partition: _Optional[int] = ..., batch_index: _Optional[int] = ...) -> None: ...

class GetMessageIdByIndexRequest(_message.Message):
    __slots__ = ("topic", "index", "mode")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    index: int
    mode: IndexLookupMode
    def __init__(self, topic: _Optional[str] = ..., index: _Optional[int] = ..., mode: _Optional[_Union[IndexLookupMode, str]] = ...) -> None: ...

class GetMessageIdByIndexResponse(_message.Message):
    __slots__ = ("message_id",)
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: MessageId
    def __init__(self, message_id: _Optional[_Union[MessageId, _Mapping]] = ...) -> None: ...

class SeekByTimeRequest(_message.Message):
    __slots__ = ("topic", "timestamp_ms", "read_compacted")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    READ_COMPACTED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    timestamp_ms: int
    read_compacted: bool
    def __init__(self, topic: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., read_compacted: bool = ...) -> None: ...

class SeekByTimeResponse(_message.Message):
    __slots__ = ("position", "behind_end")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    BEHIND_END_FIELD_NUMBER: _ClassVar[int]
    position: _tracker_pb2.Position
    behind_end: bool
    def __init__(self, position: _Optional[_Union[_tracker_pb2.Position, _Mapping]] = ..., behind_end: bool = ...) -> None: ...

class GetLastMessagePositionRequest(_message.Message):
    __slots__ = ("topic", "read_compacted")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    READ_COMPACTED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    read_compacted: bool
    def __init__(self, topic: _Optional[str] = ..., read_compacted: bool = ...) -> None: ...

class GetLastMessagePositionResponse(_message.Message):
    __slots__ = ("message_id",)
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    message_id: MessageId
    def __init__(self, message_id: _Optional[_Union[MessageId, _Mapping]] = ...) -> None: ...

class ReadEntriesRequest(_message.Message):
    __slots__ = ("topic", "start", "max_entries", "max_bytes", "protocol_version")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    MAX_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    start: _tracker_pb2.Position
    max_entries: int
    max_bytes: int
    protocol_version: int
    def __init__(self, topic: _Optional[str] = ..., start: _Optional[_Union[_tracker_pb2.Position, _Mapping]] = ..., max_entries: _Optional[int] = ..., max_bytes: _Optional[int] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class ReadEntriesResponse(_message.Message):
    __slots__ = ("ledger_ids", "entry_ids", "payloads", "unreadable", "next")
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_IDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    entry_ids: _containers.RepeatedScalarFieldContainer[int]
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    unreadable: _containers.RepeatedCompositeFieldContainer[UnreadableEntries]
    next: _tracker_pb2.Position
    def __init__(self, ledger_ids: _Optional[_Iterable[int]] = ..., entry_ids: _Optional[_Iterable[int]] = ..., payloads: _Optional[_Iterable[bytes]] = ..., unreadable: _Optional[_Iterable[_Union[UnreadableEntries, _Mapping]]] = ..., next: _Optional[_Union[_tracker_pb2.Position, _Mapping]] = ...) -> None: ...

class UnreadableEntries(_message.Message):
    __slots__ = ("first", "count", "reason")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    first: _tracker_pb2.Position
    count: int
    reason: str
    def __init__(self, first: _Optional[_Union[_tracker_pb2.Position, _Mapping]] = ..., count: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
