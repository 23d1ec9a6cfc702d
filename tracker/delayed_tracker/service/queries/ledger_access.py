"""Ledgers for ledger queries, opened when the service starts, if the settings name any."""

from dataclasses import dataclass
from typing import Self

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.messages import MessageId
from delayed_tracker.ledger.queries.async_queries import AsyncTopicQueries
from delayed_tracker.ledger.queries.message_index import IndexLookupMode
from delayed_tracker.ledger.source_url import open_sources, split_sources
from delayed_tracker.service.errors import BrokerMetadataDisabled, LedgerSourceNotSet, Recovering
from delayed_tracker.service.settings.settings import Settings

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

    @property
    def queries(self) -> AsyncTopicQueries:
        """Queries over the open ledgers.

        Raises:
            LedgerSourceNotSet: the settings name no ledgers.
            Recovering: the ledgers are not open yet, or are closed.
        """
        if not self._source_url:
            raise LedgerSourceNotSet
        if self._queries is None:
            raise Recovering("the ledgers are not open", retry_after_ms=self.answers.retry_after_ms)
        return self._queries

    async def start(self) -> None:
        """Open the source. This may take as long as reading all its files.

        Raises:
            InvalidInput: the URL names nothing that can be opened, or a file cannot be read.
            LedgerFileInvalid, MetadataInvalid: a file has another format, or is damaged.
        """
        if not self._source_url:
            return
        _log.info("opening ledgers", source=self._source_url)
        try:
            self._queries = await AsyncTopicQueries.open(lambda: open_sources(split_sources(self._source_url)))
        except InvalidInput as error:
            raise InvalidInput("ledgerSourceUrl", self._source_url, error.remedy) from error
        except OSError as error:
            # An error of an object storage or of ZooKeeper, which has no file name.
            raise InvalidInput("ledgerSourceUrl", self._source_url, f"{error}; name what can be read") from error

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
        return await self.queries.get_message_id_by_index(topic, index, mode=mode)

    async def close(self) -> None:
        """Close the source. Harmless if it was not opened."""
        if self._queries is not None:
            queries, self._queries = self._queries, None
            await queries.close()
