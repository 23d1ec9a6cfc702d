"""A storage that reports requests to servers: to bookies and ZooKeeper, and to an object store."""

from delayed_tracker.bookkeeper.stats import BookieCounters
from delayed_tracker.bookkeeper.wire.requests import Operation
from delayed_tracker.service.instruments.server_families import OBJECT_REQUESTS
from delayed_tracker.storage.capabilities import REQUEST_OUTCOMES, ClusterReport, RequestCounts
from delayed_tracker.storage.memory import MemoryStorage


class ServedStorage(MemoryStorage):
    """Snapshots in memory, and made-up counts of every kind."""

    def __init__(self):
        super().__init__()
        self.is_open = True
        self.request_counts = RequestCounts()
        for number, operation in enumerate(OBJECT_REQUESTS.labels["operation"], 1):
            for outcome in REQUEST_OUTCOMES:
                self.request_counts.add_outcome(operation, outcome, number)
        self.request_counts.bytes_sent, self.request_counts.bytes_received = 700, 800
        self.bookie = BookieCounters()
        self.ask()

    def ask(self):
        """Count one answered request of each kind."""
        for operation in OBJECT_REQUESTS.labels["operation"]:
            self.request_counts.add_time(operation, 0.02)
        for operation in Operation:
            self.bookie.answered(operation.name, "OK", 10, 20, 0.003)

    def cluster_report(self):
        bookies = {"b1:3181": self.bookie.read("b1:3181", 3, 400)}
        return ClusterReport(bookies, "zk:2181", zookeeper_connected=True, session_count=2) if self.is_open else None
