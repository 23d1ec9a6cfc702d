"""Subscriptions of topics, with their acknowledgements.

Acknowledgements are in the cluster's metadata, or in the last entry of a cursor's ledger, which only disks of bookies
have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy, MetadataInvalid, SubscriptionNotFound
from delayed_tracker.ledger.metadata.cursor import CursorState, cursor_state, nothing_acked
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.topic.combined_source import CursorSource
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.ledger.topic.topic_reader import TopicReader
from delayed_tracker.ledger.topic_name import TopicName

_PULSARS_OWN: Final = ("__compaction", "pulsar.dedup", "pulsar.repl")
_IN_METADATA: Final = -1


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One subscription of one topic; each gets its own tracker."""

    number: int
    """Number of the subscription in the job, from 0. Rows contain it instead of the two names."""
    topic: str
    subscription: str
    cursor: CursorState

    @property
    def key(self) -> tuple[str, str]:
        """Topic and subscription, the sort key of trackers in catalogues."""
        return self.topic, self.subscription


@dataclass(frozen=True, slots=True)
class Subscribers:
    """All subscriptions of a job, and the entries that could not be read for their acknowledgements."""

    all: tuple[Subscriber, ...]
    bad_entries: tuple[tuple[str, BadEntry], ...] = ()

    def by_topic(self) -> dict[str, tuple[Subscriber, ...]]:
        """Return the subscriptions of each topic."""
        found: dict[str, list[Subscriber]] = {}
        for subscriber in self.all:
            found.setdefault(subscriber.topic, []).append(subscriber)
        return {topic: tuple(subscribers) for topic, subscribers in found.items()}


def read_subscribers(
    sources: Sequence[LedgerSource],
    topics: Sequence[str],
    *,
    named: Sequence[str] = (),
    ignore_acks: bool = False,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
) -> Subscribers:
    """Return the subscriptions of topics and their acknowledgements.

    Args:
        sources: of ledgers; bookies and their disks come before other sources, and the first source with metadata is used.
        topics: full names.
        named: subscriptions; each is taken from all topics that have it. If empty, all subscriptions of each topic but
            the cursors of Pulsar itself.
        ignore_acks: treat nothing as acknowledged; then named subscriptions need not exist.
        on_error: SKIP uses the newest readable state of a cursor, and leaves out cursors without any.
    Raises:
        InvalidInput: no source has subscriptions.
        SubscriptionNotFound: no topic has a named subscription.
        MetadataInvalid: the metadata of a topic or a cursor is damaged.
        EntriesUnreadable: the state of a cursor cannot be read, and the policy is FAIL.
    """
    found: list[Subscriber] = []
    bad: list[tuple[str, BadEntry]] = []
    lacking: dict[str, list[SubscriptionNotFound]] = {}
    cursors = None if ignore_acks and named else _Cursors.of(sources)
    for topic in topics:
        name = TopicName.parse(topic)
        names = list(dict.fromkeys(named)) or [
            other for other in _known(cursors).catalogue.subscriptions(name) if _is_users(other)
        ]
        for subscription in names:
            try:
                state, unreadable = _read_one(None if ignore_acks else cursors, name, subscription, on_error)
            except SubscriptionNotFound as error:
                lacking.setdefault(subscription, []).append(error)
                continue
            bad += [(topic, entry) for entry in unreadable]
            # If its acknowledgements are unknown, its tracker stays as it is.
            if state is not None:
                found.append(Subscriber(len(found), topic, subscription, state))
    for subscription, errors in lacking.items():
        if len(errors) == len(topics) == 1:
            raise errors[0]
        if len(errors) == len(topics):
            raise SubscriptionNotFound(
                f"none of {len(topics)} topics has subscription {subscription!r}; {errors[0].message}",
                metadata={"subscription": subscription},
            )
    return Subscribers(tuple(found), tuple(bad))


def _read_one(
    cursors: "_Cursors | None", topic: TopicName, subscription: str, on_error: ErrorPolicy
) -> tuple[CursorState | None, tuple[BadEntry, ...]]:
    """Return the acknowledgements of a subscription, and the entries that could not be read for them.

    Without cursors nothing is acknowledged. None for the acknowledgements means that they are unknown.

    Raises:
        SubscriptionNotFound: the topic does not have it.
        MetadataInvalid, EntriesUnreadable: the cursor is damaged, and the policy is FAIL.
    """
    if cursors is None:
        return nothing_acked(), ()
    try:
        return cursors.read(topic, subscription, on_error)
    except MetadataInvalid as error:
        if on_error is ErrorPolicy.FAIL:
            raise
        return None, (BadEntry(None, None, None, None, error.message),)


def _known(cursors: "_Cursors | None") -> "_Cursors":
    assert cursors is not None
    return cursors


def _is_users(subscription: str) -> bool:
    return not subscription.startswith(_PULSARS_OWN)


@dataclass(frozen=True, slots=True)
class _Cursors:
    """Reader of cursors: a catalogue, and the source that has the cursors' own ledgers, if any."""

    catalogue: TopicCatalogue
    reader: TopicReader | None

    @classmethod
    def of(cls, sources: Sequence[LedgerSource]) -> "_Cursors":
        for source in sources:
            if isinstance(source, CursorSource):
                reader = source.topic_reader()
                return cls(reader.catalogue, reader)
        for source in sources:
            catalogue = getattr(source, "catalogue", None)
            if isinstance(catalogue, TopicCatalogue):
                return cls(catalogue, None)
        raise InvalidInput(
            "metadata",
            "none",
            "nothing here says what subscriptions acknowledged; give the cluster's metadata, or name the subscriptions "
            "and ignore acknowledgements",
        )

    def read(
        self, topic: TopicName, subscription: str, on_error: ErrorPolicy
    ) -> tuple[CursorState, tuple[BadEntry, ...]]:
        """Return the acknowledgements of a subscription, and the entries of the cursor that could not be read."""
        if self.reader is not None:
            read = self.reader.cursor(topic, subscription, self.reader.topic_spans(topic), on_error=on_error)
            return read.state, read.bad_entries
        info = self.catalogue.cursor(topic, subscription)
        if info.cursors_ledger_id != _IN_METADATA:
            raise MetadataInvalid(
                f"cursor {subscription!r} of {topic} lies in ledger {info.cursors_ledger_id}; give the bookies' disks or a running cluster "
                "together with the tiered storage, or ignore acknowledgements"
            )
        ledgers = self.catalogue.managed_ledger(topic).ledgers
        ends = {ledger.ledger_id: (ledger.entry_count or 0) - 1 for ledger in ledgers}
        return cursor_state(info, None, ends), ()
