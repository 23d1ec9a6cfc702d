"""The demo holds on the bundled sample, and a stopped demo leaves nothing behind."""

import asyncio
import json
import os
import signal
import sys

import pytest

from delayed_tracker.cli.exit_codes import ExitCode

DEMO_TIMEOUT_S = 630
"""Longer than the demo's own limit."""

pytestmark = pytest.mark.slow


async def demo(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "demo", *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TERM": "dumb"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(DEMO_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_demo_that_is_stopped_leaves_nothing_behind(tmp_path, number):
    """The service of a stopped demo ends, and its files are removed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "demo",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TERM": "dumb", "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEMO_TIMEOUT_S):
            while not (ready := list(tmp_path.glob("*/service.ready"))):
                await asyncio.to_thread(os.sched_yield)
            service = json.loads(ready[0].read_text())["pid"]
            process.send_signal(number)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode not in {ExitCode.OK, -number}
    assert "Traceback" not in err.decode()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(service, 0)


@pytest.mark.deep  # CI runs `make demo`, which checks its own claims
@pytest.mark.timeout(DEMO_TIMEOUT_S + 30)
async def test_the_demo_holds():
    """Every claim of the demo holds, through a kill -9."""
    status, out, err = await demo("--json")
    assert out, err
    report = json.loads(out)
    assert [claim for claim in report["claims"] if not claim["held"]] == []
    assert status == 0
    assert report["held"] is True
    assert len(report["claims"]) > 40
    comparisons = [bucket for topic in report["buckets"] for bucket in topic["comparisons"]]
    assert len(comparisons) == 12
    assert all(bucket["bytes_equal"] for bucket in comparisons)
    assert [len(topic["comparisons"]) for topic in report["rebuilt"]] == [
        len(t["comparisons"]) for t in report["buckets"]
    ]
    assert all(bucket["bytes_equal"] for topic in report["rebuilt"] for bucket in topic["comparisons"])
    delivery = report["delivery"]
    account = delivery["account"]
    assert account["offered_count"] == 420
    assert sum(account.values()) == 2 * account["offered_count"]
    assert account["lost_count"] == 0
    assert delivery["early_count"] == 0
    assert delivery["recovery"]["recovered_count"] > 0
    assert delivery["recovery"]["answered_lost_count"] == 0
    assert delivery["recovery"]["added_count"] > 0
    assert delivery["delivered_again_count"] == 0
    assert sum(group["count"] for group in delivery["lateness"] if group["group"] == "second wave") > 100
