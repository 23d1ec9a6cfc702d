"""The documents of the project, for the tests that run and check what they say."""

import re
from pathlib import Path
from typing import Final

from tests.repository.project_tree import ROOT

IN_ORDER: Final = (
    "README.md",
    "docs/operations.md",
    "docs/moving-from-pulsar.md",
    "docs/dispatcher.md",
    "docs/ledgers.md",
    "docs/inspecting.md",
    "docs/moving-storage.md",
    "docs/spark.md",
)
"""Documents with commands, in the order in which their commands run: each may use what the commands before it left."""

CLUSTER_GUIDE: Final = "docs/pulsar-cluster.md"
"""Document whose commands need a cluster; tests/cluster runs them."""

PLUGIN_GUIDE: Final = "docs/deployment/use-from-pulsar.md"
"""Document whose commands need a broker; tests/cluster/plugin follows them."""

DEPLOYMENT_GUIDE: Final = "docs/deployment/guide.md"
"""Document whose commands install the service on a machine; tests/repository/deployment follows them."""


def read(path: str) -> str:
    """Return the text of a document of the checkout."""
    return (ROOT / path).read_text(encoding="utf-8")


def every_document() -> list[Path]:
    """Return README.md, CHANGELOG.md and all pages below docs."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(program: str = r"(?!spark-)") -> list[str]:
    """Return the command lines of all documents that begin with a program, without the prompt."""
    return [line for path in IN_ORDER for line in re.findall(rf"^\$ ({program}.+)$", read(path), re.MULTILINE)]


def cluster_commands(program: str = r"(?!spark-)") -> list[str]:
    """Return the command lines of the guide for clusters that begin with a program, without the prompt."""
    return re.findall(rf"^\$ ({program}.+)$", read(CLUSTER_GUIDE), re.MULTILINE)


def plugin_commands() -> list[str]:
    """Return the command lines of the guide for brokers, without the prompt."""
    return re.findall(r"^\$ (.+)$", read(PLUGIN_GUIDE), re.MULTILINE)


def deployment_commands() -> list[str]:
    """Return the command lines of the guide for deployments, without the prompt."""
    return re.findall(r"^\$ (.+)$", read(DEPLOYMENT_GUIDE), re.MULTILINE)


def python_blocks(*, spark: bool) -> list[str]:
    """Return the Python examples: those that use Spark, or the others."""
    blocks = [block for path in IN_ORDER for block in re.findall(r"```python\n(.*?)```", read(path), re.DOTALL)]
    return [block for block in blocks if ("pyspark" in block) is spark]


def section(path: str, heading: str) -> str:
    """Return the text of a document between a heading of the second level and the next one."""
    return read(path).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
