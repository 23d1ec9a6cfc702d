"""Calls the broker's REST interface."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx

CALL_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.05
_SAMPLE: Final = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)


class AdminFailed(Exception):
    """The broker refused a call; ``status`` is HTTP's."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status


class Admin:
    """The admin interface of one broker. Topics are named in full, ``persistent://…``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        """Return whether the broker answers that it is ready; it does not while it starts."""
        try:
            return httpx.get(f"{self.url}/admin/v2/brokers/ready", timeout=2.0).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def create(self, topic: str, properties: Mapping[str, str] | None = None) -> None:
        """Create a topic, which loads it."""
        self.call("PUT", _path(topic), json=dict(properties or {}))

    def create_partitioned(self, topic: str, partitions: int) -> None:
        """Create a topic of several partitions."""
        self.call("PUT", f"{_path(topic)}/partitions", json=partitions)

    def set_property(self, topic: str, name: str, value: str) -> None:
        """Set a property of a topic."""
        self.call("PUT", f"{_path(topic)}/properties", json={name: value})

    def subscribe(self, topic: str, subscription: str) -> None:
        """Create a subscription at the topic's beginning, without a consumer."""
        self.call("PUT", f"{_path(topic)}/subscription/{_segment(subscription)}", json="earliest")

    def unload(self, topic: str) -> None:
        """Unload a topic: its writer's ledger is closed, and its cursors are written."""
        self.call("PUT", f"{_path(topic)}/unload")

    def load(self, topic: str) -> None:
        """Load a topic, which a broker does for its first client; the tracker is made at the first consumer."""
        self.internal_stats(topic)

    def set_subscription_property(self, topic: str, subscription: str, name: str, value: str) -> None:
        """Have the broker write a property of its users into the node of a cursor, beside those of buckets."""
        self.call("PUT", f"{_path(topic)}/subscription/{_segment(subscription)}/properties", json={name: value})

    def delete_subscription(self, topic: str, subscription: str) -> None:
        """Delete a subscription that has no consumer, or raise :class:`AdminFailed`."""
        self.call("DELETE", f"{_path(topic)}/subscription/{_segment(subscription)}")

    def clear_backlog(self, topic: str, subscription: str) -> None:
        """Acknowledge all messages of a subscription, the delayed ones included."""
        self.call("POST", f"{_path(topic)}/subscription/{_segment(subscription)}/skip_all")

    def skip(self, topic: str, subscription: str, count: int) -> None:
        """Acknowledge the next messages of a subscription, delayed or not."""
        self.call("POST", f"{_path(topic)}/subscription/{_segment(subscription)}/skip/{count}")

    def expire(self, topic: str, subscription: str, older_than_s: int) -> None:
        """Acknowledge the messages of a subscription that are older than some seconds."""
        self.call("POST", f"{_path(topic)}/subscription/{_segment(subscription)}/expireMessages/{older_than_s}")

    def terminate(self, topic: str) -> None:
        """Terminate a topic: nobody can write to it any more."""
        self.call("POST", f"{_path(topic)}/terminate")

    def stats(self, topic: str) -> Any:
        """Return the statistics of a topic. They walk its trackers: ask seldom."""
        return self.call("GET", f"{_path(topic)}/stats")

    def delayed(self, topic: str, subscription: str) -> int:
        """Return how many messages the tracker of a subscription has (``msgDelayed``)."""
        return int(self.stats(topic)["subscriptions"][subscription]["msgDelayed"])

    def internal_stats(self, topic: str) -> Any:
        """Return the ledgers and cursors of a topic, and load it."""
        return self.call("GET", f"{_path(topic)}/internalStats")

    def loaded_topics(self) -> set[str]:
        """Return the topics that are loaded, without loading any.

        ``broker-stats/topics`` would answer what was loaded at the last update of the statistics, a minute ago at most.
        """
        return {topic for topics in self.call("GET", "broker-stats/bookieops").values() for topic in topics}

    def compact(self, topic: str) -> None:
        """Compact a topic, and wait until that is done.

        Raises:
            AdminFailed: the compaction failed.
        """
        self.call("PUT", f"{_path(topic)}/compaction")
        wait_until(lambda: self.call("GET", f"{_path(topic)}/compaction")["status"] != "RUNNING")
        status = self.call("GET", f"{_path(topic)}/compaction")
        if status["status"] != "SUCCESS":
            raise AdminFailed(200, str(status))

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 without one."""
        answer = httpx.get(f"{self.url}/metrics/", timeout=CALL_TIMEOUT_S).text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(value)
            for found, text, value in _SAMPLE.findall(answer)
            if found == name and all(label in text for label in wanted)
        )

    def call(self, method: str, path: str, json: object = None) -> Any:
        """Call ``/admin/v2/<path>``, and return the answer's JSON, None if it has none.

        Raises:
            AdminFailed: the broker answers with an error.
        """
        answer = httpx.request(
            method, f"{self.url}/admin/v2/{path}", json=json, timeout=CALL_TIMEOUT_S, follow_redirects=True
        )
        if answer.is_error:
            raise AdminFailed(answer.status_code, answer.text)
        return answer.json() if answer.text else None


def wait_until(fulfilled: Callable[[], bool], timeout_s: float = CALL_TIMEOUT_S) -> None:
    """Ask until a broker, which announces nothing, has come to a state.

    Raises:
        TimeoutError: it has not in time.
    """
    deadline, never = time.monotonic() + timeout_s, threading.Event()
    while not fulfilled():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s")
        never.wait(POLL_S)


def _path(topic: str) -> str:
    domain, _, rest = topic.partition("://")
    tenant, namespace, name = rest.split("/", 2)
    return f"{domain}/{tenant}/{namespace}/{_segment(name)}"


def _segment(name: str) -> str:
    return quote(name, safe="")
