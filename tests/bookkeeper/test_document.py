"""The examples of docs/bookkeeper-client.md run on real bookies, and print what they say."""

import asyncio
import re
import sys

import pytest

from delayed_tracker.bookkeeper import errors
from delayed_tracker.bookkeeper.metadata import errors as metadata_errors
from tests.bookkeeper.servers.cluster import Cluster
from tests.repository import documents

pytestmark = pytest.mark.slow
DOCUMENT = documents.read("docs/bookkeeper-client.md")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
PRINTED = [
    "the last entry is 99, and the ledger has 990 bytes\n98 invoice 98\n99 invoice 99\n",
    "recovered up to entry 0\nthe first writer is fenced\n",
    "confirmed 1, stored 2\nconfirmed 2\n",
]


@pytest.mark.parametrize(
    ("example", "printed"), [*zip(EXAMPLES, PRINTED, strict=True)], ids=["write", "recover", "follow"]
)
async def test_the_examples_work(cluster: Cluster, example: str, printed: str):
    cluster.require(3)
    assert "127.0.0.1:2181" in example
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        example.replace("127.0.0.1:2181", cluster.zookeeper.address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    assert (out.decode(), said.decode(), process.returncode) == (printed, "", 0)


def test_every_error_of_the_table_exists():
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", DOCUMENT, re.MULTILINE)))
    assert len(named) == 14
    assert all(hasattr(errors, name) or hasattr(metadata_errors, name) for name in named)
