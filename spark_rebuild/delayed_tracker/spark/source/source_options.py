"""Options of the format ``pulsar_ledger``, and their checks."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.source_url import parse_source_url, require_source, split_sources
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.ledger.topic_name import TopicName

_C = TypeVar("_C", bound=Enum)
_PARTITION_BYTES: Final = 1 << 27
_BYTES_MAX: Final = (1 << 40) - 1
_TASKS_MAX: Final = 100_000


class KeptEntries(Enum):
    """Entries that become rows; bad entries always do."""

    ALL = "all"
    DELAYED = "delayed"
    """Delayed messages and the markers that end transactions: all that a rebuild needs."""


class PushFilters(Enum):
    """Setting that applies the conditions of a query while reading.

    Spark 4 stores the pushed conditions of a Python data source with the data frame. It would leave out the same rows
    in the next query of that frame, and in other branches of the same query.
    """

    NO = "no"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Option:
    """One option, and its description in the README."""

    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option("url", "", "where the ledgers are, as `--source` takes it; several are divided by spaces"),
    Option("metadata", "", "dump of the metadata store, or `zk:HOST:PORT[,HOST:PORT][/ROOT]`, for URLs that name none"),
    Option("topic", "", "one topic's name; all topics if there is neither this nor `topicsPattern`"),
    Option("topicsPattern", "", "regular expression that the full names of topics must match"),
    Option("openLedgers", "", "`live` or `recovered`, for URLs that do not say"),
    Option("onError", "fail", "`fail` at the first bad entry, or `skip`: a row with `error` for each, and go on"),
    Option("entries", "all", "`delayed` gives delayed messages, ends of transactions and bad entries only"),
    Option(
        "pushFilters", "no", "`yes` applies conditions of the query while reading; for a data frame that one query uses"
    ),
    Option("partitionBytes", str(_PARTITION_BYTES), "stored bytes that one task reads, about"),
    Option(
        "tasksAtOnce",
        "",
        "tasks that read a running cluster with `maxBytesPerSecond`, at most; each takes an equal share of the rate. By "
        "default, every partition is a task of its own and takes one",
    ),
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Parsed options: the source, its topics and the way to read them."""

    urls: tuple[str, ...]
    """Complete URLs, with their metadata and their treatment of open ledgers."""
    topic: str | None
    topics_pattern: re.Pattern[str] | None
    on_error: ErrorPolicy
    kept: KeptEntries
    push_filters: PushFilters
    partition_bytes: int
    tasks_at_once: int | None = None
    """Most tasks that read a cluster whose URL limits the rate; None for as many as there are partitions."""

    def chosen(self, topics: Sequence[str]) -> list[str]:
        """Return the chosen ones of the given topics; a topic that was named need not be among them."""
        if self.topic is not None:
            return [self.topic]
        pattern = self.topics_pattern
        return [topic for topic in topics if pattern is None or pattern.fullmatch(topic) is not None]

    def found(self, topics: Sequence[str]) -> list[str]:
        """Return the chosen ones of all topics that exist.

        Raises:
            InvalidInput: no topic matches the pattern.
        """
        chosen = self.chosen(topics)
        if self.topics_pattern is not None and not chosen:
            raise InvalidInput("topicsPattern", self.topics_pattern.pattern, "no topic fits; give another")
        return chosen


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a query.

    Args:
        given: by name, in any case; ``path`` stands for ``url``.
    Raises:
        InvalidInput: an unknown option, a value out of range, or no URL; the message has option, value and remedy.
    """
    values = option_values(OPTIONS, given)
    if values["topic"] and values["topicsPattern"]:
        raise InvalidInput("topicsPattern", values["topicsPattern"], "give this or topic, not both")
    urls = split_sources(values["url"])
    if not urls:
        raise InvalidInput("url", values["url"], "say where the ledgers are, such as ledger:DIRECTORY")
    return SourceOptions(
        urls=tuple(_completed(url, values["metadata"], values["openLedgers"]) for url in urls),
        topic=str(TopicName.parse(values["topic"])) if values["topic"] else None,
        topics_pattern=_pattern(values["topicsPattern"]) if values["topicsPattern"] else None,
        on_error=choice("onError", values["onError"], ErrorPolicy),
        kept=choice("entries", values["entries"], KeptEntries),
        push_filters=choice("pushFilters", values["pushFilters"], PushFilters),
        partition_bytes=positive_bytes("partitionBytes", values["partitionBytes"]),
        tasks_at_once=_task_count(values["tasksAtOnce"]) if values["tasksAtOnce"] else None,
    )


def option_values(known: Sequence[Option], given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each option: the given one, or the default.

    Args:
        known: all options of a format; one of them is ``url``.
        given: by name, in any case; ``path`` stands for ``url``.
    Raises:
        InvalidInput: an unknown option.
    """
    by_key = {option.name.lower(): option for option in known}
    values = {option.name: option.default for option in known}
    for key, value in given.items():
        option = by_key.get("url" if key.lower() == "path" else key.lower())
        if option is None:
            near = get_close_matches(key.lower(), by_key, n=1)
            hint = f"did you mean {by_key[near[0]].name}? " if near else ""
            raise InvalidInput("option", key, f"{hint}options are {', '.join(option.name for option in known)}")
        values[option.name] = value
    return values


def _completed(text: str, metadata: str, open_ledgers: str) -> str:
    """Return the URL with the values of other options for the parameters that it lacks."""
    url = parse_source_url(text)
    if url.scheme == "bookkeeper+zk":
        # The cluster has its own metadata, and its brokers may write: nothing is left to choose.
        if open_ledgers and choice("openLedgers", open_ledgers, OpenLedgers) is OpenLedgers.RECOVERED:
            remedy = f"{text} is a running cluster, which is read up to the last confirmed entries; leave it out"
            raise InvalidInput("openLedgers", open_ledgers, remedy)
        require_source(text)
        return text
    added = {}
    if metadata and url.scheme != "ledger":
        added["metadata"] = metadata
    if open_ledgers and not url.scheme.startswith("offload"):
        added["openLedgers"] = choice("openLedgers", open_ledgers, OpenLedgers).value
    complete = url.with_defaults(added)
    require_source(complete)
    return complete


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidInput("topicsPattern", text, f"give a regular expression: {error}") from error


def choice(name: str, value: str, choices: type[_C]) -> _C:
    """Return the choice with this value, in any case. Raises InvalidInput."""
    for one in choices:
        if one.value == value.lower():
            return one
    raise InvalidInput(name, value, f"give {' or '.join(one.value for one in choices)}")


def _task_count(value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 0 < int(value[:9]) <= _TASKS_MAX:
        raise InvalidInput("tasksAtOnce", value, f"give a number of tasks from 1 to {_TASKS_MAX}")
    return int(value)


def positive_bytes(name: str, value: str) -> int:
    """Return a number of bytes from its digits. Raises InvalidInput."""
    if not value.isascii() or not value.isdigit() or not 0 < int(value) <= _BYTES_MAX:
        raise InvalidInput(name, value, f"give a number of bytes from 1 to {_BYTES_MAX}")
    return int(value)
