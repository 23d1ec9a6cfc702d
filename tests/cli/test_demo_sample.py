"""Tests that the demo fails on a sample that was changed."""

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from delayed_tracker.cli.exit_codes import ExitCode

pytestmark = pytest.mark.long

LOG_HEADER_BYTES = 1_024


def tampered(directory: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """Return a copy of the sample with one file changed, and a manifest changed with it."""
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


@pytest.mark.parametrize("ledger_id", [88, *(pytest.param(ledger, marks=pytest.mark.deep) for ledger in (123, 128))])
def test_a_dropped_ledger_is_noticed(command, tmp_path, ledger_id):
    """A dropped ledger is noticed even if the manifest's checksums fit."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: without_ledger(log, ledger_id))
    ran = command("demo", "--sample", str(copy))
    assert ran.status == ExitCode.BAD_DATA
    assert f"{ledger_id}:0" in ran.err


def test_a_dropped_snapshot_of_pulsars_is_noticed(command, tmp_path):
    """A missing snapshot of Pulsar fails the comparison."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: without_ledger(log, 91))
    ran = command("demo", "--sample", str(copy))
    assert ran.status == ExitCode.BAD_DATA
    assert "91:0" in ran.err


@pytest.mark.parametrize("ledger_id", [88, pytest.param(91, marks=pytest.mark.deep)])
def test_a_flipped_byte_is_noticed(command, tmp_path, ledger_id):
    """A flipped byte is noticed by the entry's own checksum, even if the manifest's fits."""
    copy = tampered(tmp_path, "bookie/0.log", lambda log: with_flipped_byte_of(log, ledger_id))
    ran = command("demo", "--sample", str(copy))
    assert ran.status == ExitCode.BAD_DATA
    assert f"{ledger_id}:0" in ran.err


@pytest.mark.parametrize(
    "count",
    ["delayed", *(pytest.param(name, marks=pytest.mark.deep) for name in ("due_at_capture", "bucket_segments"))],
)
def test_a_claim_that_does_not_hold_fails_the_demo(command, tmp_path, count):
    """The failed claim is printed with the expected and the observed value, and the second part is not played."""

    def one_more(manifest: bytes) -> bytes:
        document = json.loads(manifest)
        document["subscriptions"][1][count] += 1
        return json.dumps(document).encode()

    copy = tampered(tmp_path, "manifest.json", one_more)
    ran = command("demo", "--sample", str(copy))
    assert ran.status == ExitCode.FAILURE
    assert "FAIL" in ran.out
    assert "checks failed" in ran.out
    assert "kill -9" not in ran.out
