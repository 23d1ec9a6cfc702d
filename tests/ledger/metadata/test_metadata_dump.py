"""Tests of a metadata source that is read from a file."""

import gzip
import json

import pytest

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from tests.ledger.harness.log_files import write_dump

VALUES = {
    "/managed-ledgers": b"",
    "/managed-ledgers/lab/main/persistent/orders": b"\x00\xff\x0a",
    "/managed-ledgers/lab/main/persistent/orders/workers": b"cursor",
    "/managed-ledgers/lab/main/persistent/bills": b"",
}


@pytest.mark.parametrize("name", ["dump.jsonl", "dump.jsonl.gz"])
def test_nodes_and_their_children(tmp_path, name):
    """Nodes and children are read from plain and gzip files, also if nodes between root and leaf are missing."""
    dump = MetadataDump.load(write_dump(tmp_path / name, VALUES))

    assert len(dump) == 4
    assert dump.name == str(tmp_path / name)
    assert dump.get("/managed-ledgers/lab/main/persistent/orders") == b"\x00\xff\x0a"
    assert dump.get("/managed-ledgers/lab/main/persistent/bills") == b""
    assert dump.get("/managed-ledgers/lab") is None
    assert dump.children("/managed-ledgers") == ["lab"]
    assert dump.children("/managed-ledgers/lab/main/persistent") == ["bills", "orders"]
    assert dump.children("/managed-ledgers/lab/main/persistent/orders") == ["workers"]
    assert list(dump.children("/nowhere")) == []


def test_further_keys_and_missing_values(tmp_path):
    """Unknown keys are ignored, and a missing or null value is empty."""
    rows = [{"path": "/a", "value": None, "version": 3, "ephemeral": False}, {"version": 0, "path": "/b"}]
    (tmp_path / "dump.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n")

    dump = MetadataDump.load(tmp_path / "dump.jsonl")

    assert (dump.get("/a"), dump.get("/b")) == (b"", b"")


@pytest.mark.parametrize(
    "line",
    ['{"path": "/b"', '["/b"]', '{"value": ""}', '{"path": 7}', '{"path": "/b", "value": "***"}', "/b", '"\xff"'],
)
def test_bad_lines_are_named_by_number(tmp_path, line):
    """The error for a bad line names the file, the line and the expected form."""
    (tmp_path / "dump.jsonl").write_bytes(b'{"path": "/a"}\n' + line.encode("latin-1") + b"\n")

    with pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl, line 2: .*give a metadata dump of JSON lines"):
        MetadataDump.load(tmp_path / "dump.jsonl")


def test_gzip_cut_short_at_every_byte_is_refused(tmp_path):
    """A gzip dump that is cut at any byte is refused, because it would hide topics."""
    packed = gzip.compress(b'{"path": "/a", "value": "AAAA"}\n' * 20)
    file = tmp_path / "dump.jsonl.gz"
    for length in range(2, len(packed)):
        file.write_bytes(packed[:length])
        with pytest.raises(LedgerFileInvalid, match="cut short or damaged"):
            MetadataDump.load(file)


def test_file_that_does_not_exist(tmp_path):
    """A missing file raises the error of the operating system with its name."""
    with pytest.raises(FileNotFoundError):
        MetadataDump.load(tmp_path / "nowhere.jsonl")
