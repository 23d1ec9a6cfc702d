"""Tests of the bundled sample and of damaged copies."""

import json
import shutil
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE, SampleDamaged, open_sample


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUNDLED_SAMPLE, tmp_path / "sample"))


def test_the_bundled_sample_is_whole_and_small():
    """The sample is verified, has three subscriptions, and is smaller than 500 kB."""
    sample = open_sample(BUNDLED_SAMPLE)
    assert [row.topic.rpartition("/")[2] for row in sample.subscriptions] == [
        "delayed",
        "delayed-all",
        "delayed-sparse",
    ]
    assert sum(path.stat().st_size for path in BUNDLED_SAMPLE.rglob("*") if path.is_file()) < 500_000


@pytest.mark.parametrize("name", ["bookie/0.log", "metadata.jsonl"])
@pytest.mark.parametrize("where", [0.0, 0.5, 0.999])
def test_a_flipped_byte_is_noticed(copy, name, where):
    """A flipped byte is noticed at every place."""
    content = bytearray((copy / name).read_bytes())
    content[int(len(content) * where)] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(SampleDamaged, match="SHA-256"):
        open_sample(copy)


def test_a_missing_file_is_noticed(copy):
    """The error contains the name of the missing file."""
    (copy / "bookie" / "0.log").unlink()
    with pytest.raises(SampleDamaged, match=r"0\.log cannot be read"):
        open_sample(copy)


@pytest.mark.parametrize("manifest", ["", "{}", "[]", '{"files": {}}', "\x00"])
def test_a_broken_manifest_is_noticed(copy, manifest):
    """A broken manifest raises SampleDamaged."""
    (copy / "manifest.json").write_text(manifest)
    with pytest.raises(SampleDamaged, match="is not a manifest"):
        open_sample(copy)


def test_a_manifest_of_other_counts_is_taken_at_its_word(copy):
    """Counts of the manifest are not checked on opening; the demo checks them."""
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["subscriptions"][0]["delayed"] += 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert open_sample(copy).subscriptions[0].delayed == 587
