"""What the README says about Spark is so: its example works, its tables are those of the code."""

import re

import pytest
from pyspark.sql import SparkSession

from spark_rebuild.schema import ENTRY_COLUMNS
from spark_rebuild.source_options import OPTIONS
from tests.project_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "pyspark" in block]


def table(heading: str) -> list[str]:
    """Rows of the table with this heading."""
    lines = README.splitlines()
    start = lines.index(heading) + 2
    return lines[start : lines.index("", start)]


def test_all_options_are_in_the_table():
    assert table("| option | default | meaning |") == [
        f"| `{option.name}` | {f'`{option.default}`' if option.default else 'none'} | {option.meaning} |"
        for option in OPTIONS
    ]


def test_all_columns_are_in_the_table():
    assert table("| column | type | meaning |") == [
        f"| `{column.name}` | {column.type.simpleString()} | {column.meaning} |" for column in ENTRY_COLUMNS
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_works(
    spark: SparkSession, example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """In the session that is there; its paths are those of a checkout."""
    assert spark is not None
    monkeypatch.chdir(ROOT)
    exec(compile(example, "README.md", "exec"), {})
    assert "persistent://lab/main/delayed" in capsys.readouterr().out
