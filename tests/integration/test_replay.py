"""``delayed-tracker replay`` against a service: the tracker that it feeds, and its messages about a damaged disk."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode

TOPIC = "persistent://lab/main/delayed"

pytestmark = pytest.mark.slow


@pytest.fixture
def storage_url() -> str:
    return "memory:"


async def run(service: ServiceProcess, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", *arguments,
        env={**os.environ, "DELAYED_TRACKER_SERVER": service.grpc_address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def replay(bookie: Path, topic: str = TOPIC) -> tuple[str, ...]:
    metadata = BUNDLED_SAMPLE / "metadata.jsonl"
    return (
        *("replay", "--bookie", str(bookie), "--metadata", str(metadata)),
        *("--topic", topic, "--subscription", "sub-1", "--json"),
    )


async def test_a_topic_by_its_short_name_is_the_same_topic(service):
    """A short topic name selects the tracker of the full name, which dispatchers use."""
    status, out, err = await run(service, *replay(BUNDLED_SAMPLE / "bookie", "lab/main/delayed"))
    assert status == 0, err
    assert json.loads(out)["topic"] == TOPIC
    status, out, err = await run(service, "stats", "--topic", TOPIC, "--subscription", "sub-1", "--json")
    assert status == 0, err


@pytest.mark.long
async def test_a_log_cut_short_is_said_so_and_nothing_is_offered(service, tmp_path):
    """A damaged log is reported by entries, file and byte; --on-error skip continues and counts the missing entries."""
    (tmp_path / "bookie").mkdir()
    log = (BUNDLED_SAMPLE / "bookie" / "0.log").read_bytes()
    (tmp_path / "bookie" / "0.log").write_bytes(log[:100_000])
    status, out, err = await run(service, *replay(tmp_path / "bookie"))
    assert (status, out) == (ExitCode.BAD_DATA, "")
    assert "109:0 to 49" in err
    assert "0.log is cut short at byte" in err
    status, _, _ = await run(service, "stats", "--topic", TOPIC, "--subscription", "sub-1")
    assert status == ExitCode.TRACKER_CONFLICT

    status, out, err = await run(service, *replay(tmp_path / "bookie"), "--on-error", "skip")
    assert status == 0, err
    account = json.loads(out)
    assert (account["read_count"], account["bad_entry_count"], len(account["bad_entries"])) == (400, 50, 1)
