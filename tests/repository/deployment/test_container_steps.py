"""The steps of the Containerfile run on a minimal Debian, and what they make serves as the image would."""

from pathlib import Path

import pytest

from tests.repository.deployment.debian_root import build, missing
from tests.repository.deployment.test_container import LINES

pytestmark = [pytest.mark.deep, pytest.mark.timeout(3_600)]
CONFIGURATION = """
grpcListenAddress=127.0.0.1:7650
httpListenAddress=127.0.0.1:7651
healthListenAddress=127.0.0.1:7652
bucketSnapshotStorageUrl=sqlite:data/tracker.db
"""


def test_the_steps_make_a_service(tmp_path: Path):
    """Both stages build; the user of the image serves on a read-only root, is healthy, compiles nothing and ends in order."""
    if reason := missing():
        pytest.skip(reason)
    image = build(LINES, tmp_path)
    assert image.user == "10001:10001"
    written = image.serve(CONFIGURATION, writable="/var/lib/delayed-tracker")
    assert "stopped" in written
    assert "compil" not in written
    assert (image.root / "var/lib/delayed-tracker/data/tracker.db").is_file()
