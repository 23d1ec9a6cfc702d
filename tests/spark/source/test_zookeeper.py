"""Metadata from a real ZooKeeper server, run from the jars of Spark."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from kazoo.client import KazooClient

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import MetadataUnavailable
from delayed_tracker.ledger.metadata.metadata_store import open_metadata
from delayed_tracker.spark.runtime.java import find_java
from tests.ledger.harness.log_files import (
    TOPIC,
    entry_log,
    ledger_path,
    ledger_records,
    ledger_value,
    message,
    topic_path,
    topic_value,
)
from tests.spark.harness.reading import positions, read_rows

VALUES = {
    ledger_path(3): ledger_value(last_entry_id=1),
    topic_path(): topic_value({3: 2}),
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server that has a cluster below /pulsar."""
    port = free_port()
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = [find_java() / "bin" / "java", "-Xmx64m", "-Dzookeeper.admin.enableServer=false", "-cp", jars]
    server = "org.apache.zookeeper.server.ZooKeeperServerMain"
    with subprocess.Popen(
        [*map(str, command), server, str(port), str(tmp_path_factory.mktemp("zookeeper"))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        client = KazooClient(hosts=f"127.0.0.1:{port}")
        # Retries until the server is up.
        client.start(timeout=60)
        for path, value in VALUES.items():
            client.create(f"/pulsar{path}", value, makepath=True)
        client.stop()
        client.close()
        yield f"zk:127.0.0.1:{port}/pulsar"
        process.terminate()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nodes_are_those_of_the_server(address: str):
    """The values and the children of nodes are those of the server, and missing nodes are reported."""
    metadata = open_metadata(address)
    assert metadata.name == address
    assert metadata.get(topic_path()) == VALUES[topic_path()]
    assert metadata.get("/managed-ledgers") == b""
    assert metadata.get("/nowhere") is None
    assert list(metadata.children("/")) == ["ledgers", "managed-ledgers"]
    assert list(metadata.children("/nowhere")) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ledgers_are_read_by_it(address: str, tmp_path: Path):
    """Ledgers are read as with a dump, and the option applies to all sources that name no metadata."""
    records = ledger_records(3, [message(), message()])
    (tmp_path / "0.log").write_bytes(entry_log(records))
    rows, _ = read_rows(url=f"bookkeeper+file:{tmp_path}", metadata=address)
    assert positions(rows) == [(3, 0), (3, 1)]
    assert {row["topic"] for row in rows} == {TOPIC}


def test_addresses_are_needed():
    with pytest.raises(InvalidInput, match="give zk:HOST:PORT"):
        open_metadata("zk:/pulsar")


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    """A server that does not answer is reported once with a remedy; the client's log of each attempt is silent."""
    monkeypatch.setattr("delayed_tracker.ledger.metadata.metadata_store._CONNECT_S", 0.2)
    port = free_port()
    with pytest.raises(MetadataUnavailable, match=f"zk:127.0.0.1:{port} does not answer within 0.2 s; start it or"):
        open_metadata(f"zk:127.0.0.1:{port}")
    assert (caplog.text, capsys.readouterr().err) == ("", "")
