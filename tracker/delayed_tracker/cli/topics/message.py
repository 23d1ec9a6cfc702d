"""Command ``delayed-tracker topics message``: prints the messages of one entry as a consumer receives them."""

import base64
from typing import Annotated, Final

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import Json, instant, jsonable, print_json, show, size, table
from delayed_tracker.cli.tracker.positions import parse_position
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path
from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX
from delayed_tracker.ledger.messages import KeyLoader, Message, MessageOptions, load_key_files
from delayed_tracker.ledger.messages.one_entry import messages_of_entry

_SHOWN_CHARACTERS: Final = 2_000
_LISTED_CHARACTERS: Final = 60


def message(
    *,
    position: Annotated[
        str, typer.Argument(help="Position of the entry, such as 7:3 (ledger 7, entry 3).", metavar="LEDGER:ENTRY")
    ],
    source: Source,
    topic: Topic,
    batch_index: Annotated[
        int | None, typer.Option("--batch-index", min=0, help="Only this message of a batch, counted from 0.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="A private key (PEM) by the name that producers gave it; may be repeated.",
            metavar="NAME=FILE",
        ),
    ] = None,
    message_bytes_max: Annotated[
        int,
        typer.Option(
            "--message-bytes-max", min=1, help="Refuse a message that becomes larger, decompressed and put together."
        ),
    ] = MESSAGE_BYTES_MAX,
    as_json: AsJson = False,
) -> None:
    """Print the messages of one entry as consumers receive them: decrypted, decompressed, chunks joined.

    Example: delayed-tracker topics message --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed 7:3
    """
    place = Position(*parse_position("LEDGER:ENTRY", position))
    options = MessageOptions(keys=_keys(key or []), message_bytes_max=message_bytes_max)
    with opened(source) as queries:
        log = queries.topic_log(topic)
        messages = messages_of_entry(log, place, options)
    if batch_index is not None:
        messages = [_in_batch(messages, batch_index)]
    if as_json:
        print_json({"messages": [_document(found) for found in messages]})
    elif len(messages) == 1:
        _show_one(str(log.name), messages[0])
    else:
        _show_list(f"{place} of {log.name}", messages)


def _keys(texts: list[str]) -> KeyLoader | None:
    files: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not name or not file:
            raise InvalidInput("--key", text, "give NAME=FILE, such as orders-key=private.pem")
        refuse_home_path("--key", text, file)
        files[name] = file
    return load_key_files(files) if files else None


def _in_batch(messages: list[Message], batch_index: int) -> Message:
    for found in messages:
        if found.id.batch_index == batch_index:
            return found
    there = [str(found.id.batch_index) for found in messages if found.id.batch_index >= 0]
    if not there:
        raise InvalidInput("--batch-index", batch_index, "leave it out: the entry is no batch")
    raise InvalidInput("--batch-index", batch_index, f"the entry has messages {', '.join(there)}")


def _document(found: Message) -> Json:
    """Return the message as JSON: bytes as base64, and the payload also as text if it is text."""
    return {
        "id": jsonable(found.id),
        "key": found.key,
        "key_base64": found.key_base64,
        "ordering_key_base64": _base64(found.ordering_key),
        "properties": jsonable(found.properties),
        "publish_time_ms": found.publish_time_ms,
        "event_time_ms": found.event_time_ms,
        "deliver_at_ms": found.deliver_at_ms,
        "broker_publish_time_ms": found.broker_publish_time_ms,
        "index": found.index,
        "producer": found.producer,
        "sequence_id": found.sequence_id,
        "null_value": found.null_value,
        "schema_version_base64": _base64(found.schema_version),
        "payload_base64": _base64(found.payload),
        "payload_text": _text(found.payload),
    }


def _show_one(topic: str, found: Message) -> None:
    rows = table(f"{found.id.position} of {topic}", "what", "value")
    if found.id.first_chunk is not None:
        rows.add_row("in pieces from", str(found.id.first_chunk))
    if found.id.batch_index >= 0:
        rows.add_row("in its batch", f"{found.id.batch_index} of 0 to {found.id.batch_size - 1}")
    if found.index is not None:
        rows.add_row("index", str(found.index))
    if found.broker_publish_time_ms is not None:
        rows.add_row("broker publish time", instant(found.broker_publish_time_ms))
    rows.add_row("published", instant(found.publish_time_ms))
    if found.event_time_ms:
        rows.add_row("event time", instant(found.event_time_ms))
    if found.deliver_at_ms is not None:
        rows.add_row("deliver at", instant(found.deliver_at_ms))
    rows.add_row("producer", f"{found.producer}, sequence id {found.sequence_id}")
    if found.key is not None:
        rows.add_row("key (base64)" if found.key_base64 else "key", _readable(found.key.encode(), _SHOWN_CHARACTERS))
    if found.ordering_key is not None:
        rows.add_row("ordering key", _readable(found.ordering_key, _SHOWN_CHARACTERS))
    for name, value in found.properties.items():
        rows.add_row(f"property {name}", _readable(value.encode(), _SHOWN_CHARACTERS))
    rows.add_row(
        "payload", "none: the key is deleted" if found.null_value else _sized(found.payload, _SHOWN_CHARACTERS)
    )
    show(rows)


def _show_list(title: str, messages: list[Message]) -> None:
    numbers = ("in batch", "index", "size")
    rows = table(title, "in batch", "index", "key", "properties", "size", "payload", numbers=numbers)
    for found in messages:
        rows.add_row(
            str(found.id.batch_index),
            "-" if found.index is None else str(found.index),
            "-" if found.key is None else _listed(found.key.encode()),
            ", ".join(f"{name}={_listed(value.encode())}" for name, value in found.properties.items()),
            size(len(found.payload)),
            "(deleted)" if found.null_value else _listed(found.payload),
        )
    show(rows)


def _listed(content: bytes) -> str:
    """Return the content on one line, for a row of a table."""
    return _readable(content, _LISTED_CHARACTERS).replace("\n", "\\n").replace("\t", "\\t")


def _sized(content: bytes, characters_max: int) -> str:
    shown = _readable(content, characters_max)
    return f"{shown} ({size(len(content))})" if shown else size(0)


def _readable(content: bytes, characters_max: int) -> str:
    """Return the content as text, or as hexadecimal digits if it is not text, cut after ``characters_max``."""
    text = _text(content)
    if text is None or not all(character.isprintable() or character in "\n\t" for character in text):
        text = f"0x{content[:characters_max].hex()}"
    return text if len(text) <= characters_max else f"{text[:characters_max]}... (cut)"


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
