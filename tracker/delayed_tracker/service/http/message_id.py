"""``GET /admin/v2/persistent/{tenant}/{namespace}/{topic}/getMessageIdByIndex``, as brokers serve it (PIP-415).

    200  {"ledgerId": ..., "entryId": ..., "partitionIndex": ..., "batchIndex": -1, "batchSize": 0}
    307  another process owns the topic
    400  the index is missing or repeated (Pulsar takes index 0, or the first; its client always gives one)
    401  the caller has no valid credential
    403  the caller may not read the topic (Pulsar 4.2 answers 401 with this text, the proposal has 403)
    404  no such topic or namespace, or an index that is not a number, negative or above the last
    405  the topic is partitioned: ask one of its partitions
    406  the topic is not persistent
    412  the topic's entries carry no index, or the service has no ledgers to read
    503  the ledgers are being opened, or their store does not answer

Errors are ``{"reason": ...}``, with Pulsar's text where Pulsar has one. If several things are wrong, the first of these
is answered, as in Pulsar: the configuration, the index, the permission, the topic and its owner, the message.
Source: PIP-415; PersistentTopics.java and PersistentTopicsBase.java (internalGetMessageIDByIndexAsync).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.ledger.errors import (
    BrokerMetadataMissing,
    MessageIndexInvalid,
    MessageNotFound,
    MetadataUnavailable,
    NamespaceNotFound,
    PartitionedTopic,
    TopicNotFound,
)
from delayed_tracker.ledger.messages import MessageId
from delayed_tracker.ledger.topic_name import TopicName, decode_name
from delayed_tracker.service.errors import BrokerMetadataDisabled, LedgerSourceNotSet, Retryable
from delayed_tracker.service.queries.ledger_access import LedgerAccess

_PATH: Final = "/{tenant}/{namespace}/{local_name:path}/getMessageIdByIndex"
_PERSISTENT: Final = "/admin/v2/persistent"
_NON_PERSISTENT: Final = "/admin/v2/non-persistent"
_PARTS_BEFORE_TENANT: Final = len(_PERSISTENT.split("/"))
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_MAX: Final = 2**63 - 1


class TopicOwnership(Protocol):
    """Lookup of the process that owns a topic, if there are several processes."""

    async def owner_url(self, topic: TopicName, *, authoritative: bool) -> str | None:
        """Return the base URL of the process that owns a topic, ``http://other:7651``; None if it is this process.

        Args:
            topic: any topic; it need not exist.
            authoritative: True if another process redirected the caller here.
        """


class TopicAuthorization(Protocol):
    """Policy that decides which callers may read a topic."""

    async def refusal(self, topic: TopicName, headers: Mapping[str, str]) -> str | None:
        """Return why the caller with these HTTP headers may not read a topic; None if it may."""


class OwnsEverything:
    """Ownership for a single process: it owns every topic."""

    async def owner_url(self, topic: TopicName, *, authoritative: bool) -> str | None:  # noqa: ARG002
        """Return None: this process owns the topic."""
        return None


class AllowAll:
    """Authorization for a trusted network: every caller may read every topic."""

    async def refusal(self, topic: TopicName, headers: Mapping[str, str]) -> str | None:  # noqa: ARG002
        """Return None: the caller may read the topic."""
        return None


@dataclass(frozen=True, slots=True)
class AdminHooks:
    """The policies for ownership and authorization, which an embedding process may replace."""

    ownership: TopicOwnership = field(default_factory=OwnsEverything)
    authorization: TopicAuthorization = field(default_factory=AllowAll)


def message_id_routes(ledgers: LedgerAccess, hooks: AdminHooks) -> list[Route]:
    """Return the endpoint for persistent topics, and the one that refuses other topics."""

    async def answer(request: Request) -> Response:
        return await _answer(request, ledgers, hooks)

    async def refuse(_: Request) -> Response:
        return _refused(406, "getMessageIdByIndex is for persistent topics only")

    return [Route(_PERSISTENT + _PATH, answer), Route(_NON_PERSISTENT + _PATH, refuse)]


async def _answer(request: Request, ledgers: LedgerAccess, hooks: AdminHooks) -> Response:
    given = request.query_params.getlist("index")
    if len(given) != 1 or not given[0].strip():
        wrong = f"there {len(given)} times" if len(given) > 1 else "empty" if given else "missing"
        return _refused(400, f"index: it is {wrong}; give index=NUMBER, once")
    index = _whole_number(given[0])
    if index is None:
        return _refused(404, f"index: {given[0]!r} is not a whole number of 64 bits")
    topic = _topic(request)
    authoritative = request.query_params.get("authoritative", "").lower() == "true"
    try:
        ledgers.require_index_metadata(ledgers.answers.mode)
        if index < 0:
            raise MessageIndexInvalid(index)
        refusal = await hooks.authorization.refusal(topic, request.headers)
        if refusal is not None:
            return _refused(403, refusal)
        owner_url = await hooks.ownership.owner_url(topic, authoritative=authoritative)
        if owner_url is not None:
            query = urlencode({"index": index, "authoritative": "true"})
            return RedirectResponse(f"{owner_url.rstrip('/')}{_raw_path(request)}?{query}", status_code=307)
        return JSONResponse(_body(await ledgers.message_id_by_index(str(topic), index, mode=ledgers.answers.mode)))
    except DelayedTrackerError as error:
        return _refused(*_status_and_reason(error, topic))


def _whole_number(text: str) -> int | None:
    """Return the number that a text stands for, as Java reads it; None if it is not a number of 64 bits."""
    text = text.strip()
    if not _WHOLE_NUMBER.fullmatch(text) or not -_INT64_MAX - 1 <= int(text) <= _INT64_MAX:
        return None
    return int(text)


def _topic(request: Request) -> TopicName:
    # Read the path as it was sent: clients encode names as Java does, with a plus for a space.
    parts = [decode_name(part) for part in _raw_path(request).split("/")[_PARTS_BEFORE_TENANT:-1]]
    if len(parts) < 3:
        return TopicName(**request.path_params)
    return TopicName(parts[0], parts[1], "/".join(parts[2:]))


def _raw_path(request: Request) -> str:
    encoded: bytes = request.scope["raw_path"]
    return encoded.partition(b"?")[0].decode("latin-1")


def _body(found: MessageId) -> dict[str, int]:
    return {
        "ledgerId": found.ledger_id,
        "entryId": found.entry_id,
        "partitionIndex": found.partition,
        "batchIndex": found.batch_index,
        "batchSize": found.batch_size,
    }


def _status_and_reason(error: DelayedTrackerError, topic: TopicName) -> tuple[int, str]:
    """Return a broker's status and text for an error; the service's own text if brokers have none."""
    match error:
        case MessageIndexInvalid():
            return 404, f"Invalid message index: {error.index}"
        case MessageNotFound(index=None):
            return 404, f"No messages found in topic {topic}"
        case MessageNotFound():
            return 404, f"Message not found for index {error.index}"
        case NamespaceNotFound():
            return 404, "Namespace not found"
        case TopicNotFound():
            return 404, f"Topic {topic} not found"
        case PartitionedTopic():
            return 405, "GetMessageIDByIndex is not allowed on partitioned-topic"
        case BrokerMetadataMissing():
            return 412, "Broker entry metadata is not present in the message"
        case BrokerMetadataDisabled():
            return 412, "GetMessageIDByIndex is not allowed when broker entry metadata is disabled"
        case Retryable() | MetadataUnavailable():
            return 503, error.message
        case InvalidInput() | LedgerSourceNotSet():
            return 412, error.message
        case _:
            return 500, error.message


def _refused(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status_code=status)
