"""The documents are right: their commands run, their examples work, their tables are those of the code."""

import ast
import asyncio
import importlib
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.main import PROGRAM
from delayed_tracker.client import MessagePlace
from delayed_tracker.service.instruments import server_families
from delayed_tracker.service.instruments.family import Family
from delayed_tracker.storage.add_log_registry import ADD_LOG_GROUP
from delayed_tracker.storage.registry import ENTRY_POINT_GROUP
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.harness.scripted_service import scripted_service
from tests.client.harness.tls import server_credentials
from tests.repository import documents
from tests.repository.project_tree import ROOT
from tests.service.security.certificates import Authority

ADDRESS = "127.0.0.1:7650"
BROKER_CONF = "/etc/pulsar/broker.conf"
"""The place that the documents name."""
MOVED = {
    "/tmp/local-ledgers": "{}/ledgers",
    "/tmp/delayed-tracker-assets": "{}/assets",
    "/tmp/delayed-tracker-backup": "{}/backup",
    "sqlite:data/": "sqlite:{}/",
}
"""Places that the documents name, and those of the tests."""

COMMANDS = documents.commands()
PYTHON = documents.python_blocks(spark=False)
"""tests/spark runs the examples and commands for Spark."""

pytestmark = pytest.mark.slow


async def run(*arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.parametrize("path", documents.every_document(), ids=lambda path: path.name)
def test_every_block_is_of_a_kind_that_is_tested(path: Path):
    """Drawings have no language; a block of another language would be tested by nothing."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if path.name in {"storage-backends.md", "bookkeeper-client.md", "actions.md"}:
        return  # their blocks have tests of their own
    assert len(blocks) == text.count("```") / 2
    # The file of quotas in the guide is parsed in tests/repository/deployment.
    # The lines for broker.conf are those of a broker in tests/cluster/plugin.
    also = {documents.DEPLOYMENT_GUIDE: {"json"}, documents.PLUGIN_GUIDE: {"properties"}}.get(
        str(path.relative_to(ROOT)), set()
    )
    assert {language for language, _ in blocks} <= {"", "console", "python"} | also
    for language, block in blocks:
        assert language != "" or "-->" in block or ".py" in block, "a drawing, or a path through files"
        assert language != "console" or all(line.startswith("$ ") for line in block.splitlines())
        guides = (documents.CLUSTER_GUIDE, documents.PLUGIN_GUIDE, documents.DEPLOYMENT_GUIDE)
        runs = str(path.relative_to(ROOT)) in {*documents.IN_ORDER, *guides}
        assert language == "" or runs, "commands and examples stand in documents that are run"


def test_the_examples_are_those_that_are_run_below():
    words = ["asyncio", "blocking", "offers", "credentials", "ledgers"]
    assert [word in example for word, example in zip(words, PYTHON, strict=True)] == [True] * len(words)


def test_blocks_of_the_storage_guide_are_what_they_say():
    """The example that they are cut from, a backend, passes the contract in a test of its own."""
    guide = documents.read("docs/storage-backends.md")
    blocks = re.findall(r"^ *```(\w+)\n(.*?)^ *```$", guide, re.MULTILINE | re.DOTALL)
    assert [language for language, _ in blocks] == ["toml", "python", "toml"]
    (_, entry_point), (_, contract), (_, log_entry_point) = blocks
    for stated, group in ((entry_point, ENTRY_POINT_GROUP), (log_entry_point, ADD_LOG_GROUP)):
        assert list(tomllib.loads(dedent(stated))["project"]["entry-points"]) == [group]
    imported = [node for node in ast.walk(ast.parse(dedent(contract))) if isinstance(node, ast.ImportFrom)]
    for node in imported:
        assert node.module is not None
        assert all(hasattr(importlib.import_module(node.module), name.name) for name in node.names)
    assert imported


def test_every_command_is_in_a_document():
    """Make targets and serve have tests of their own, and those of clusters; the others run below."""
    groups = {name.partition(" ")[0] for name in PROGRAM.command_names() if " " in name}
    written = [*COMMANDS, *documents.cluster_commands()]
    words = [shlex.split(command) for command in written if not command.startswith("export ")]
    typed = {" ".join(rest[:2] if rest[0] in groups else rest[:1]) for _, *rest in words}
    assert typed == set(PROGRAM.command_names()) - groups | {"demo", "test"}


def test_make_targets_that_are_named_exist():
    """In blocks and in sentences, of every document."""
    targets = set(re.findall(r"^([a-z-]+):", documents.read("Makefile"), re.MULTILINE))
    text = "".join(
        path.read_text(encoding="utf-8") for path in documents.every_document() if path.name != "CHANGELOG.md"
    )
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text))
    assert {"demo", "help", "serve", "reference", "test"} <= named <= targets


@pytest.fixture
def broker_conf(tmp_path: Path) -> Path:
    path = tmp_path / "broker.conf"
    path.write_text(
        "advertisedAddress=lab\ndelayedDeliveryEnabled=true\ndelayedDeliveryTickTimeMillis=500\nbrokerServicePort=6650\n"
        "delayedDeliveryTrackerFactoryClassName=org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_commands_run_in_the_order_of_the_documents(service, broker_conf, tmp_path):
    """Each exits with 0, on what the ones before it left, in the environment that they made."""
    environment = {"DELAYED_TRACKER_SERVER": service.grpc_address}
    for command in COMMANDS:
        program, name, *arguments = shlex.split(command)
        if program == "export":
            variable, _, value = name.partition("=")
            environment[variable] = value
            continue
        if program == "make" or name == "serve":
            continue
        moved = arguments
        for named, place in MOVED.items():
            moved = [argument.replace(named, place.format(tmp_path)) for argument in moved]
        status, out = await run(
            sys.executable, "-m", "delayed_tracker.cli", name,
            *(str(broker_conf) if argument == BROKER_CONF else argument for argument in moved),
            environment=environment,
        )  # fmt: skip
        assert status == 0, f"{command}\n{out}"
        if BROKER_CONF in arguments:
            assert "2 unused keys ignored: advertisedAddress, brokerServicePort" in out


@pytest.mark.long
@pytest.mark.parametrize("command", [command for command in COMMANDS if " serve " in command])
async def test_the_service_starts_as_the_documents_say(tmp_path, broker_conf, command):
    """With the files that it names; only its addresses and its data are moved here."""
    ready = tmp_path / "ready"
    data = f"bucketSnapshotStorageUrl=sqlite:{tmp_path / 'tracker.db'}"
    environment = {"TRACKER_GRPC_LISTEN_ADDRESS": "127.0.0.1:0", "TRACKER_HTTP_LISTEN_ADDRESS": "127.0.0.1:0"}
    arguments = [str(broker_conf) if argument == BROKER_CONF else argument for argument in shlex.split(command)[1:]]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", *arguments, "--ready-file", str(ready), "--set", data,
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"ready" not in await process.stderr.readline():
                assert process.returncode is None
        assert ready.exists()
        process.terminate()
        await process.stderr.read()
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def service_settings() -> dict[str, str]:
    """With the ledgers that the commands of the documents read."""
    sample = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"
    return {"ledgerSourceUrl": sample}


@pytest.mark.long
async def test_the_ledgers_example_works(service):
    """The ledgers example finds a message, reads on from there, and reaches the end."""
    status, out = await run(sys.executable, "-c", PYTHON[4].replace(ADDRESS, service.grpc_address), environment={})
    assert status == 0, out
    first, *pages, last = out.splitlines()
    position = first.removeprefix("index 420 is at ")
    assert pages[0] == f"100 entries from {position} on; 0 gaps"
    assert last.startswith("the last is ")


@pytest.mark.long
async def test_the_restart_example_works(service):
    """The second session offers nothing again, and reads what was offered and is not tracked: due, or not delayed."""
    status, out = await run(sys.executable, "-c", PYTHON[2].replace(ADDRESS, service.grpc_address), environment={})
    assert status == 0, out
    assert out.splitlines() == [
        "offered 25 and send now 26",
        *["offered 25 and send now 25"] * 3,
        "offered through 7:199",
        "read now: 101 entries",
        "offered through 7:199",
    ]


@pytest.mark.long
@pytest.mark.parametrize("example", PYTHON[:2], ids=["asyncio", "blocking"])
async def test_the_python_examples_work(service, example):
    """Each example tracks, waits, and gets the message that became due."""
    assert ADDRESS in example
    # Three seconds are too few if the machine stands still before the add.
    patient = example.replace("+ 3000", "+ 12000").replace("wait_ms=5_000", "wait_ms=60_000")
    assert patient.count("12000") == patient.count("60_000") == 1
    status, out = await run(sys.executable, "-c", patient.replace(ADDRESS, service.grpc_address), environment={})
    assert status == 0, out
    assert "100 tracked, 0 due already" in out
    assert out.count("due: 7:") == 100


@pytest.mark.long
async def test_the_credentials_example_works(tmp_path):
    """It connects with TLS, and shows the token of the file."""
    authority = Authority()
    (tmp_path / "ca").write_bytes(authority.certificate)
    (tmp_path / "token").write_text("from-a-file\n")
    shown = []

    async def list_trackers(request, context):
        shown.append(dict(context.invocation_metadata())["authorization"])
        return pb.ListTrackersResponse()

    async with scripted_service(server_credentials(authority)) as scripted:
        scripted.on("ListTrackers", list_trackers)
        example = PYTHON[3].replace("tracker.shop.svc:7650", scripted.address)
        example = example.replace("/etc/tracker/ca.crt", str(tmp_path / "ca"))
        example = example.replace("/run/secrets/tracker-token", str(tmp_path / "token"))
        status, out = await run(sys.executable, "-c", example, environment={})
    assert (status, out) == (0, "0 trackers\n")
    assert shown == ["Bearer from-a-file"]


def test_every_place_of_a_message_is_explained():
    """Each answer of `explain` is in the table, and nothing else is."""
    explained = documents.section("docs/inspecting.md", "Explain a late message")
    rows = re.findall(r"^\| ([a-z, ]+) \|", explained, re.MULTILINE)
    listed = [place for row in rows if row != "place" for place in row.split(", ")]
    assert sorted(listed) == sorted(place.value.replace("_", " ") for place in MessagePlace)


@pytest.mark.long
async def test_the_table_of_metrics_is_what_metrics_shows(service):
    """Each metric is in both, except those of the process, and those of storages over a network."""
    async with httpx.AsyncClient(base_url=f"http://{service.http_address}", timeout=60) as http:
        shown = set(re.findall(r"^# TYPE (\S+) ", (await http.get("/metrics")).text, re.MULTILINE))
    listed = set(re.findall(r"^\| `(\w+)`", documents.read("docs/reference/metrics.md"), re.MULTILINE))
    elsewhere = {family.name for family in vars(server_families).values() if isinstance(family, Family)}
    assert listed - elsewhere == {name for name in shown if not name.startswith(("process_", "python_"))}
