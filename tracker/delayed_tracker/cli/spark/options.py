"""Options that the commands of ``spark-rebuild`` share, and their conversion to settings."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from delayed_tracker.cli.ledger_source import SOURCE_VARIABLE, sources_given
from delayed_tracker.cli.spark.textfile import writable
from delayed_tracker.cli.terminal.grouped_options import in_place_of
from delayed_tracker.cli.terminal.options import reject_tilde_path
from delayed_tracker.cli.tracker.offering import parse_instant
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.source_url import SourceUrl, parse_source_url
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.spark.source.source_options import parse_options

Source = Annotated[
    list[str],
    typer.Option(
        "--source",
        envvar=SOURCE_VARIABLE,
        callback=sources_given,
        help="Where the ledgers are, as the driver and all workers see it: bookkeeper+file:DIR[,DIR...]?metadata=DUMP, "
        "bookkeeper+zk:HOST:PORT,HOST:PORT/ROOT?maxBytesPerSecond=N (a running cluster), offload+mapfile:DIR, offload+blob:URL, ledger:DIR. May be repeated: each ledger is read from the first source "
        "that has all of it.",
        metavar="URL",
    ),
]
Metadata = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        help="For sources that name none: a dump of the metadata store, or zk:HOST:PORT,HOST:PORT/ROOT.",
        metavar="DUMP",
    ),
]
Topics = Annotated[
    str | None, typer.Option("--topic", help="Only this topic; by default, all there are.", metavar="TOPIC")
]
TopicsPattern = Annotated[
    str | None,
    typer.Option("--topics-pattern", help="Only topics whose whole name matches.", metavar="REGEX"),
]
Subscriptions = Annotated[
    list[str] | None,
    typer.Option(
        "--subscription",
        help="Only this subscription of each topic that has it; may be repeated; default: all.",
        metavar="NAME",
    ),
]
IgnoreAcks = Annotated[
    bool,
    typer.Option("--ignore-acks", help="Take acknowledged messages too, as a new subscription would get them."),
]
OpenLedgersMode = Annotated[
    OpenLedgers | None,
    typer.Option(
        "--open-ledgers",
        help="live: a writer may still be running; recovered: none is. Ignored for a URL with openLedgers.",
        metavar="live|recovered",
        case_sensitive=False,
    ),
]
OnError = Annotated[
    ErrorPolicy,
    typer.Option(
        "--on-error",
        help="fail: end at the first bad entry; skip: list them all and go on.",
        metavar="fail|skip",
        case_sensitive=False,
    ),
]
Now = Annotated[
    str | None,
    typer.Option(
        "--now",
        help="The moment at which messages count as due (ISO-8601 or epoch ms); by default, now.",
        metavar="INSTANT",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark master, such as local[4] or spark://host:7077; by default all cores here, or spark-submit's.",
        metavar="URL",
    ),
]
SparkOptions = Annotated[
    list[str] | None,
    typer.Option("--spark-option", help="A setting of Spark; may be repeated.", metavar="KEY=VALUE"),
]
SparkLog = Annotated[
    Path | None,
    typer.Option(
        "--spark-log",
        help="Append the output of Spark and its Python workers to this file. Default: if Spark fails, the last output "
        "is written to a file that the error names.",
        metavar="FILE",
        callback=reject_tilde_path,
    ),
]
Prometheus = Annotated[
    Path | None,
    typer.Option(
        "--prometheus",
        help="Write metrics to this file for the textfile collector.",
        metavar="FILE",
        callback=writable,
    ),
]

_FIRST: Final = (
    "source",
    "against",
    "output",
    "overwrite",
    "metadata",
    "topic",
    "topics_pattern",
    "subscription",
    "ignore_acks",
    "open_ledgers",
    "on_error",
)
"""Order of the options at the beginning of each help: what is read, what it is compared with or where it goes, and how."""


@dataclass(frozen=True, slots=True)
class SourceArguments:
    """Options of the command line that say which ledgers are read, and how."""

    urls: Sequence[str]
    metadata: str | None = None
    topic: str | None = None
    topics_pattern: str | None = None
    open_ledgers: OpenLedgers | None = None
    on_error: ErrorPolicy = ErrorPolicy.FAIL

    @property
    def text(self) -> str:
        """URLs as errors name them."""
        return " ".join(self.urls)

    def format_options(self) -> dict[str, str]:
        """Return options of the format ``pulsar_ledger``, checked before Spark starts. Raises InvalidInput."""
        given = {
            # The format splits its option at spaces, but a path may contain spaces.
            "url": " ".join(url.replace(" ", "%20") for url in self.urls),
            "metadata": self.metadata,
            "topic": self.topic,
            "topicsPattern": self.topics_pattern,
            "openLedgers": self.open_ledgers and self.open_ledgers.value,
            "onError": self.on_error.value,
        }
        options = {name: value for name, value in given.items() if value is not None}
        for url in parse_options(options).urls:
            _require_place(parse_source_url(url))
        return options


@dataclass(frozen=True, slots=True)
class SparkArguments:
    """Options of the command line that say how Spark runs the job, and where its outcome is recorded."""

    master: str | None
    """Master in Spark's form; None for the cores of this machine, or what spark-submit has chosen."""
    settings: Sequence[str]
    """Settings of Spark, each KEY=VALUE."""
    log: Path | None
    """File for the output of Spark's processes; None keeps its end, for a failure of Spark."""
    prometheus: Path | None
    """File for metrics, which can be written; None for no metrics."""


def with_source(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ledgers in place of its parameter ``source``, a :class:`SourceArguments`."""

    def with_options(
        *,
        source: Source,
        metadata: Metadata = None,
        topic: Topics = None,
        topics_pattern: TopicsPattern = None,
        open_ledgers: OpenLedgersMode = None,
        on_error: OnError = ErrorPolicy.FAIL,
        **others: Any,
    ) -> None:
        arguments = SourceArguments(source, metadata, topic, topics_pattern, open_ledgers, on_error)
        command(source=arguments, **others)

    return in_place_of("source", with_options, command, first=_FIRST)


def with_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of Spark in place of its parameter ``spark``, a :class:`SparkArguments`."""

    def with_options(
        *,
        master: Master = None,
        spark_option: SparkOptions = None,
        spark_log: SparkLog = None,
        prometheus: Prometheus = None,
        **others: Any,
    ) -> None:
        command(spark=SparkArguments(master, spark_option or (), spark_log, prometheus), **others)

    return in_place_of("spark", with_options, command)


def _require_place(url: SourceUrl) -> None:
    """Refuse a directory that is not there before Spark starts, which takes time. The driver reads it first."""
    if url.scheme in ("bookkeeper+file", "ledger"):
        for path in url.paths:
            if not Path(path).is_dir():
                raise InvalidInput("--source", url.text, f"{url.part(path)}: give a directory that exists")


def spark_options(given: Sequence[str]) -> dict[str, str]:
    """Return settings of Spark by key. Raises InvalidInput for other text."""
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise InvalidInput("--spark-option", text, "give spark.KEY=VALUE")
        settings[key] = value
    return settings


def moment_ms(now: str | None) -> int:
    """Return the time of ``--now``, in milliseconds since 1970, UTC."""
    return clock_ms() if now is None else parse_instant("--now", now)


def clock_ms() -> int:
    """Return the time, in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000
