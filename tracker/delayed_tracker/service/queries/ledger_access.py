"""Ledgers for ledger queries, opened when the service starts, if the settings name any.

Trackers do not need them. So a ZooKeeper or an object store that does not answer keeps no service from starting: its
ledgers are opened when it answers, and queries are told to come again until then, and when it fails later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import structlog

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.ledger.errors import MetadataUnavailable
from delayed_tracker.ledger.messages import MessageId
from delayed_tracker.ledger.queries.async_queries import AsyncTopicQueries
from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.ledger.source_url import open_sources, split_sources
from delayed_tracker.service.errors import BrokerMetadataDisabled, LedgerSourceNotSet, Recovering
from delayed_tracker.service.settings.settings import Settings

_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 60.0
"""Longest pause between two attempts to open the ledgers; each is twice the one before."""

Answer = TypeVar("Answer")

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(frozen=True, slots=True)
class LedgerAnswers:
    """Settings of the answers to ledger queries."""

    mode: IndexLookupMode
    """Mode of a message id lookup by index, if the call does not give one."""
    interceptors_configured: bool
    """True if ``brokerEntryMetadataInterceptors`` is not empty, which a Pulsar-compatible lookup requires."""
    exposes_broker_metadata: bool
    """True if entries are returned with broker metadata to readers that support it."""
    entries_max: int
    """Entries in one page."""
    bytes_max: int
    """Payload bytes in one page."""
    retry_after_ms: int
    """Delay before a retry, sent to callers while the ledgers are being opened."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the answer settings that the service settings define."""
        return cls(
            mode=IndexLookupMode(settings.ledger.message_id_by_index_mode),
            interceptors_configured=bool(settings.pulsar.broker_entry_metadata_interceptors.strip(", ")),
            exposes_broker_metadata=settings.pulsar.expose_broker_entry_metadata,
            entries_max=settings.ledger.ledger_read_entries_max,
            bytes_max=settings.read_bytes_max,
            retry_after_ms=settings.service_limits().retry_after_ms,
        )


class LedgerAccess:
    """Access to the ledgers for the gRPC and HTTP sides of the service. Started once, closed once."""

    def __init__(self, source_url: str, answers: LedgerAnswers) -> None:
        """Set the source without opening it. ``source_url`` may contain several URLs, divided by spaces, or none."""
        self.answers = answers
        self._source_url = source_url
        self._queries: AsyncTopicQueries | None = None
        self.opening: asyncio.Task[None] | None = None
        """Attempts to open the ledgers, while their stores are away since the start."""

    async def ask(self, query: Callable[[AsyncTopicQueries], Awaitable[Answer]]) -> Answer:
        """Return the answer of a query over the open ledgers.

        Raises:
            LedgerSourceNotSet: the settings name no ledgers.
            Recovering: the ledgers are not open yet, or are closed.
            MetadataUnavailable: a store or a file cannot be read now.
            LedgerError: as the query raises it.
        """
        if not self._source_url:
            raise LedgerSourceNotSet
        if self._queries is None:
            raise Recovering("the ledgers are not open", retry_after_ms=self.answers.retry_after_ms)
        try:
            return await query(self._queries)
        except OSError as error:
            raise MetadataUnavailable(
                f"the ledgers cannot be read: {error}; make it readable, and ask again"
            ) from error

    async def start(self) -> None:
        """Open the source, or begin to try until its stores answer. This may take as long as reading all its files.

        Raises:
            InvalidInput: the URL names nothing that can be opened, or a file cannot be read.
            LedgerFileInvalid, MetadataInvalid: a file has another format, or is damaged.
        """
        if not self._source_url:
            return
        _log.info("opening ledgers", source=self._source_url)
        try:
            await self._open()
        except MetadataUnavailable as error:
            self._note(error, _RETRY_S)
            self.opening = asyncio.create_task(self._open_later())

    async def _open(self) -> None:
        try:
            self._queries = await AsyncTopicQueries.open(lambda: open_sources(split_sources(self._source_url)))
        except InvalidInput as error:
            raise InvalidInput("ledgerSourceUrl", self._source_url, error.remedy) from error
        except OSError as error:
            # Of an object store or a ZooKeeper that does not answer: a file that cannot be read is InvalidInput.
            raise MetadataUnavailable(f"{error}; start it, or correct ledgerSourceUrl") from error

    async def _open_later(self) -> None:
        pause_s = _RETRY_S
        while self._queries is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)
            try:
                await self._open()
            except DelayedTrackerError as error:
                self._note(error, pause_s)
            else:
                _log.info("ledgers opened", source=self._source_url)

    def _note(self, error: DelayedTrackerError, pause_s: float) -> None:
        _log.warning(
            "ledgers not opened, queries of them are refused meanwhile",
            source=self._source_url,
            reason=error.reason,
            error=error.message,
            retry_in_ms=round(pause_s * 1_000),
        )

    def require_index_metadata(self, mode: IndexLookupMode) -> None:
        """Check the broker's precondition of a lookup by index.

        Raises:
            BrokerMetadataDisabled: the mode is Pulsar-compatible, and no interceptors are configured.
        """
        if mode is IndexLookupMode.PULSAR_COMPATIBLE and not self.answers.interceptors_configured:
            raise BrokerMetadataDisabled

    async def message_id_by_index(self, topic: str, index: int, *, mode: IndexLookupMode) -> MessageId:
        """Call :meth:`~delayed_tracker.ledger.queries.topic_queries.TopicQueries.get_message_id_by_index`.

        Raises:
            BrokerMetadataDisabled: see :meth:`require_index_metadata`.
        """
        self.require_index_metadata(mode)
        return await self.ask(lambda queries: queries.get_message_id_by_index(topic, index, mode=mode))

    async def close(self) -> None:
        """Close the source. Harmless if it was not opened."""
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.wait([self.opening])
            self.opening = None
        if self._queries is not None:
            queries, self._queries = self._queries, None
            await queries.close()
