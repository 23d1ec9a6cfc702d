"""Sends requests to Pulsar's own client in one JVM, which produces and consumes for the tests."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bookkeeper.servers.server_process import JVM_OPTIONS
from tests.jvm.line_server import LineServer, running_line_server
from tests.jvm.pulsar_classes import BROKER_POM, class_path, find_java

PROGRAM: Final = Path(__file__).with_name("PulsarClients.java")
RECEIVE_TIMEOUT_S: Final = 60.0
_BATCH: Final = 10_000
"""Messages that one request produces."""

Answer = dict[str, Any]


class PulsarFailed(Exception):
    """Pulsar's client raised an exception; ``name`` is its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class MessageId(NamedTuple):
    """Position of an entry."""

    ledger_id: int
    entry_id: int


EARLIEST: Final = MessageId(-1, -1)
"""Id in front of all messages: a client that seeks to a message does not get that one."""


class Received(NamedTuple):
    """One message that a consumer received. Times are milliseconds since the epoch."""

    ledger_id: int
    entry_id: int
    batch_index: int
    """-1 outside a batch."""
    deliver_at_ms: int
    """0 without a delay."""
    received_ms: int
    published_ms: int

    @property
    def id(self) -> MessageId:
        """Return the position of its entry."""
        return MessageId(self.ledger_id, self.entry_id)

    @property
    def late_ms(self) -> int:
        """Return how long after its time the message came; negative if before."""
        return self.received_ms - self.deliver_at_ms


@dataclass(frozen=True, slots=True)
class Sent:
    """Messages of a steady flow, in the order in which they were sent."""

    ids: list[MessageId]
    deliver_at_ms: list[int]
    latency_us: list[int]
    """Times from when each was meant to be sent until the broker had stored it."""


class JavaClients:
    """A running ``PulsarClients.java``, whose header comment describes the requests."""

    def __init__(self, program: LineServer) -> None:
        self._program = program

    def ask(self, do: str, **fields: Any) -> Answer:
        """Send one request, and return the answer.

        Raises:
            PulsarFailed: Pulsar's client raised an exception.
        """
        answer: Answer = json.loads(self._program.ask(json.dumps({"do": do, **fields})))
        if "error" in answer:
            raise PulsarFailed(answer["error"], answer["message"])
        return answer


class Consumer:
    """A consumer of a shared subscription, which collects what it receives in the background."""

    def __init__(self, java: JavaClients, number: int) -> None:
        self._java = java
        self._number = number

    def received(self, count: int = 0, timeout_s: float = RECEIVE_TIMEOUT_S) -> list[Received]:
        """Return everything received so far, in the order of arrival, once there are ``count`` messages or it is late."""
        answer = self._java.ask("received", consumer=self._number, count=count, timeout=int(timeout_s * 1_000))
        return [Received(*row) for row in answer["messages"]]

    def acknowledge(self, ids: Sequence[MessageId]) -> None:
        """Acknowledge single entries, received or not, and wait until the broker has taken them."""
        self._java.ask("acknowledge", consumer=self._number, ids=ids)

    def seek(self, entry: MessageId) -> None:
        """Have the subscription begin again with an entry; all of its consumers are disconnected for a moment."""
        self._java.ask("seek", consumer=self._number, id=entry)

    def close(self) -> list[Received]:
        """Close the consumer, and return everything that it has received; the subscription stays."""
        answer = self._java.ask("close", consumer=self._number)
        return [Received(*row) for row in answer["messages"]]


class Flow:
    """Messages that are sent at a steady rate in the background, until :meth:`settle`."""

    def __init__(self, java: JavaClients, number: int) -> None:
        self._java = java
        self._number = number

    def settle(self) -> Sent:
        """Stop, wait until all are stored, and return what was sent."""
        answer = self._java.ask("settle", flow=self._number)
        return Sent([MessageId(*pair) for pair in answer["ids"]], answer["deliverAt"], answer["micros"])


class BrokerClients:
    """Producers and consumers of one broker."""

    def __init__(self, java: JavaClients, service_url: str) -> None:
        self._java = java
        self._url = service_url

    def produce(
        self, topic: str, deliver_at_ms: Sequence[int], *, keys: Sequence[str] | None = None, size: int = 20
    ) -> list[MessageId]:
        """Send one message of ``size`` bytes for each time (0: without a delay), and return their ids.

        They come from one producer, so that their order is that of the times given.
        """
        ids: list[MessageId] = []
        for start in range(0, len(deliver_at_ms), _BATCH):
            part = slice(start, start + _BATCH)
            answer = self._java.ask(
                "produce",
                url=self._url,
                topic=topic,
                deliverAt=list(deliver_at_ms[part]),
                keys=None if keys is None else list(keys[part]),
                size=size,
            )
            ids += [MessageId(*pair) for pair in answer["ids"]]
        return ids

    def produce_batch(self, topic: str, deliver_at_ms: int, count: int, size: int = 20) -> MessageId:
        """Send one batch, all of it due at one time (0: without a delay), and return the id of its entry."""
        answer = self._java.ask("batch", url=self._url, topic=topic, deliverAt=deliver_at_ms, count=count, size=size)
        return MessageId(*answer["id"])

    def transact(self, topic: str, deliver_at_ms: Sequence[int], *, commit: bool) -> list[MessageId]:
        """Send messages in a transaction, and commit or abort it; the broker must have a coordinator."""
        answer = self._java.ask(
            "transact", url=self._url, topic=topic, deliverAt=list(deliver_at_ms), commit=commit, size=20
        )
        return [MessageId(*pair) for pair in answer["ids"]]

    def steady(self, topic: str, delays_ms: Sequence[int], per_second: int, size: int = 20) -> Flow:
        """Begin to send messages at a rate; their delays come from the list again and again, 0 for none."""
        answer = self._java.ask(
            "steady", url=self._url, topic=topic, delays=list(delays_ms), perSecond=per_second, size=size
        )
        return Flow(self._java, answer["flow"])

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        acknowledge: bool = True,
        earliest: bool = True,
        kind: str = "Shared",
        nack_every: int = 0,
    ) -> Consumer:
        """Begin to receive from a subscription, which is made at the topic's beginning or its end.

        Args:
            topic: full name.
            subscription: any text.
            acknowledge: acknowledge each message that comes.
            earliest: begin with the first message; otherwise with the next.
            kind: Shared, Key_Shared, Failover or Exclusive.
            nack_every: give back each so many messages that come the first time, as if they had not come; 0 for none.
        """
        answer = self._java.ask(
            "subscribe",
            url=self._url,
            topic=topic,
            subscription=subscription,
            acknowledge=acknowledge,
            earliest=earliest,
            type=kind,
            nackEvery=nack_every,
        )
        return Consumer(self._java, answer["consumer"])

    def disconnect(self) -> None:
        """Forget all producers and consumers of this broker, whether it still runs or not."""
        self._java.ask("disconnect", url=self._url)


@contextmanager
def running_java_clients() -> Iterator[JavaClients]:
    """Start the JVM, and stop it at the end.

    Raises:
        NoPulsarClasses: there is no Java, or Pulsar's classes cannot be fetched.
    """
    command = [find_java(), *JVM_OPTIONS, "-Xmx512m", "-cp", class_path(BROKER_POM), str(PROGRAM)]
    with running_line_server(PROGRAM.name, command) as program:
        yield JavaClients(program)
