"""A broker's answer about its loaded topics, from a local HTTP server, with its registration in ZooKeeper."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from delayed_tracker.ledger.topic_name import TopicName


class ToldTopics:
    """Answers of the broker; tests change them while it runs."""

    def __init__(self) -> None:
        self.loaded: set[TopicName] = set()
        self.status = 200
        self.body: bytes | None = None
        """Sent instead of the topics."""
        self.token: str | None = None
        """Demanded of whoever asks."""
        self.asked_count = 0
        self.on_ask = lambda: None
        """Called with each question, before the answer."""
        self.url = ""

    @property
    def registration(self) -> bytes:
        """Return the value of the broker's node."""
        return json.dumps({"webServiceUrl": self.url, "pulsarServiceUrl": "pulsar://127.0.0.1:1"}).encode()

    def answer(self) -> bytes:
        if self.body is not None:
            return self.body
        topics: dict[str, dict[str, object]] = {}
        for topic in self.loaded:
            topics.setdefault(f"{topic.tenant}/{topic.namespace}", {})[str(topic)] = {"dataLedgerOpenOp": 0}
        return json.dumps(topics).encode()


@contextmanager
def told_topics() -> Iterator[ToldTopics]:
    """Serve the answer on a free port."""
    told = ToldTopics()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked_count += 1
            told.on_ask()
            status = told.status
            if self.path != "/admin/v2/broker-stats/bookieops":
                status = 404
            elif told.token is not None and self.headers["Authorization"] != f"Bearer {told.token}":
                status = 401
            body = told.answer()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
