"""Sources of ledgers for tests of commands: data of a real Pulsar, and damaged copies."""

import shutil
from pathlib import Path

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE
from tests.golden.pulsar_pack import BOOKIE, METADATA, PACK

TIERED_TOPIC = "persistent://lab/fs-none/stored"
PULSAR = f"bookkeeper+file:{BOOKIE}?metadata={METADATA}"
KEY = f"test-key={PACK / 'keys' / 'private.pem'}"
MAIN = "persistent://lab/main/"
SAMPLE_TOPIC = f"{MAIN}delayed"
SAMPLE = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"


def damaged_sample(directory: Path) -> str:
    """Copy the sample with one bit of entry 88:0 flipped; return the source's URL."""
    copy = Path(shutil.copytree(BUNDLED_SAMPLE / "bookie", directory / "bookie"))
    content = bytearray((copy / "0.log").read_bytes())
    content[1024 + 4 + 40 + 20] ^= 1
    (copy / "0.log").write_bytes(content)
    return f"bookkeeper+file:{copy}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"


def damaged_tiered(directory: Path) -> str:
    """Copy tiered storage, which contains only :data:`TIERED_TOPIC`, with one damaged MapFile; return its URL."""
    copy = Path(shutil.copytree(PACK / "offload-filesystem" / "none", directory / "tiered"))
    min(copy.glob("*/*/persistent/*/*/data")).write_bytes(b"not this")
    return f"offload+mapfile:{copy}?metadata={METADATA}"
