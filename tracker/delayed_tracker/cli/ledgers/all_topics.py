"""Opens all topics of a source, for commands that continue after topics that cannot be read."""

from delayed_tracker.ledger.errors import LedgerError
from delayed_tracker.ledger.queries.topic_queries import TopicQueries
from delayed_tracker.ledger.topic.topic_log import TopicLog


def open_all_topics(queries: TopicQueries) -> tuple[list[TopicLog], dict[str, LedgerError]]:
    """Return the topics that can be opened, and the errors of the others by their names.

    Raises:
        OSError: a file cannot be read.
    Cost: O(ledgers); reads no entries.
    """
    logs: list[TopicLog] = []
    unreadable: dict[str, LedgerError] = {}
    for name in queries.topics():
        try:
            logs.append(queries.source.topic_log(name))
        except LedgerError as error:
            unreadable[name] = error
    return logs, unreadable
