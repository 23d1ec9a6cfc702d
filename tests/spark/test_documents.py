"""docs/spark.md is right: its example works, its tables are those of the code."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.cli.spark.main import PROGRAM
from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.schema import ENTRY_COLUMNS, SNAPSHOT_COLUMNS
from delayed_tracker.spark.snapshots.snapshot_options import SNAPSHOT_OPTIONS
from delayed_tracker.spark.source.source_options import OPTIONS
from delayed_tracker.storage.registry import open_storage
from tests.repository import documents
from tests.repository.project_tree import ROOT
from tests.spark.harness.buckets import store_bucket

GUIDE = documents.read("docs/spark.md")
TOPIC, STORAGE = "persistent://lab/main/delayed", "file:///srv/tracker"
EXAMPLES = documents.python_blocks(spark=True)


def table(heading: str) -> list[str]:
    """Rows of the table with this heading."""
    lines = GUIDE.splitlines()
    start = lines.index(heading) + 2
    return lines[start : lines.index("", start)]


@pytest.mark.parametrize(
    ("heading", "options"), [("option", OPTIONS), ("option of `delayed_snapshots`", SNAPSHOT_OPTIONS)]
)
def test_all_options_are_in_the_table(heading, options):
    """The table of a data source has all of its options, with their defaults."""
    assert table(f"| {heading} | default | meaning |") == [
        f"| `{option.name}` | {f'`{option.default}`' if option.default else 'none'} | {option.meaning} |"
        for option in options
    ]


@pytest.mark.parametrize(
    ("heading", "columns"), [("column", ENTRY_COLUMNS), ("column of `delayed_snapshots`", SNAPSHOT_COLUMNS)]
)
def test_all_columns_are_in_the_table(heading, columns):
    """The table of a data source has all of its columns, with their types."""
    assert table(f"| {heading} | type | meaning |") == [
        f"| `{column.name}` | {column.type.simpleString()} | {column.meaning} |" for column in columns
    ]


async def store_one(url: str) -> None:
    """Store a bucket whose last deadline is the largest that there is."""
    storage = open_storage(url)
    await storage.start()
    key = TrackerKey(TOPIC, "sub-1")
    entry = await store_bucket(storage, key, {(1, 0): 1_795_000_000_000, (1, 1): INT63_MAX}, seal_number=1)
    await storage.replace(*key, remove=(), add=[entry], epoch=1)
    await storage.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_works(
    spark: SparkSession,
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """The example works in the existing session; its paths are those of a checkout, its storage is in a directory."""
    assert spark is not None
    monkeypatch.chdir(ROOT)
    if STORAGE in example:
        example = example.replace(STORAGE, f"file://{tmp_path / 'storage'}")
        asyncio.run(store_one(f"file://{tmp_path / 'storage'}"))
    exec(compile(example, "docs/spark.md", "exec"), {})
    assert TOPIC in capsys.readouterr().out


@pytest.mark.long
def test_the_commands_work(command, tmp_path, monkeypatch):
    """In their order, on the source that docs/ledgers.md names; every command is among them."""
    source = re.search(r"^\$ export (DELAYED_TRACKER_SOURCE)='(.+)'$", documents.read("docs/ledgers.md"), re.MULTILINE)
    assert source is not None
    monkeypatch.setenv(*source.groups())
    monkeypatch.chdir(ROOT)
    typed = [shlex.split(line)[1:] for line in documents.commands("spark-rebuild ")]
    assert {name for name, *_ in typed} == set(PROGRAM.command_names()) - {"script"}
    # `warm` starts a Java of its own, which a process with a session does not: tests/spark/runtime/test_warm.py.
    for words in (words for words in typed if words != ["warm"]):
        ran = command(*(word.replace("data/", f"{tmp_path}/") for word in words))
        assert ran.status == 0, (words, ran.err)
    script = command("script").out.strip()
    # Spark imports files next to the script before all others.
    assert {path.name for path in Path(script).parent.glob("*.py")} == {"__init__.py", Path(script).name}
    assert 'spark-submit --master spark://host:7077 "$(spark-rebuild script)"' in GUIDE
