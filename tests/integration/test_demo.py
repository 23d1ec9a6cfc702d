"""The demo holds on the bundled sample, and does not hold on one that was tampered with."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tracker.cli.demo.sample import BUNDLED_SAMPLE
from tracker.service.exit_codes import ExitCode

LOG_HEADER_BYTES = 1_024
DEMO_TIMEOUT_S = 180
"""Three minutes are what the demo promises."""

pytestmark = pytest.mark.slow


async def demo(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tracker.cli", "demo", *arguments,
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_demo_that_is_stopped_leaves_nothing_behind(tmp_path, number):
    """Its service ends with it, and its files go."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tracker.cli", "demo",
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


def tampered(directory: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """A copy of the sample with one file changed, and a manifest that was changed with it."""
    copy = Path(shutil.copytree(BUNDLED_SAMPLE, directory / "sample"))
    (copy / name).write_bytes(change((copy / name).read_bytes()))
    manifest = json.loads((copy / "manifest.json").read_text())
    if name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((copy / name).read_bytes()).hexdigest()
        (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


def without_ledger(log: bytes, ledger_id: int) -> bytes:
    kept = [log[:LOG_HEADER_BYTES]]
    at = LOG_HEADER_BYTES
    while at < len(log):
        size, found = struct.unpack_from(">iq", log, at)
        if found != ledger_id:
            kept.append(log[at : at + 4 + size])
        at += 4 + size
    assert len(kept) < 2_258
    return b"".join(kept)


def with_flipped_byte_of(log: bytes, ledger_id: int) -> bytes:
    at = LOG_HEADER_BYTES
    while struct.unpack_from(">iq", log, at)[1] != ledger_id:
        at += 4 + struct.unpack_from(">i", log, at)[0]
    changed = bytearray(log)
    changed[at + 60] ^= 1
    return bytes(changed)


@pytest.mark.timeout(DEMO_TIMEOUT_S + 30)
async def test_the_demo_holds():
    """Every claim, in under three minutes, through a kill -9."""
    status, out, _ = await demo("--json")
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
    assert delivery["recovery"]["added_again_count"] > 0
    assert sum(group["count"] for group in delivery["lateness"] if group["group"] == "second wave") > 100


@pytest.mark.parametrize("ledger_id", [88, 123, 128])
async def test_a_dropped_ledger_is_noticed(tmp_path, ledger_id):
    """Even if somebody made the manifest's checksums fit."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: without_ledger(log, ledger_id))
    status, _, err = await demo("--sample", str(copy))
    assert status == ExitCode.BAD_DATA
    assert f"{ledger_id}:0" in err


async def test_a_dropped_snapshot_of_pulsars_is_noticed(tmp_path):
    """The comparison does not pass for want of something to compare with."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: without_ledger(log, 91))
    status, _, err = await demo("--sample", str(copy))
    assert status == ExitCode.BAD_DATA
    assert "91:0" in err


@pytest.mark.parametrize("ledger_id", [88, 91])
async def test_a_flipped_byte_is_noticed(tmp_path, ledger_id):
    """By the entry's own checksum, if somebody made the manifest's fit."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: with_flipped_byte_of(log, ledger_id))
    status, _, err = await demo("--sample", str(copy))
    assert status == ExitCode.BAD_DATA
    assert f"{ledger_id}:0" in err


@pytest.mark.parametrize("count", ["delayed", "due_at_capture", "bucket_segments"])
async def test_a_claim_that_does_not_hold_fails_the_demo(tmp_path, count):
    """What was expected and what was seen are told, and the second part is not played."""

    def one_more(manifest: bytes) -> bytes:
        document = json.loads(manifest)
        document["subscriptions"][1][count] += 1
        return json.dumps(document).encode()

    copy = tampered(tmp_path, "manifest.json", one_more)
    status, out, _ = await demo("--sample", str(copy))
    assert status == ExitCode.FAILURE
    assert "FAIL" in out
    assert "checks failed" in out
    assert "kill -9" not in out
