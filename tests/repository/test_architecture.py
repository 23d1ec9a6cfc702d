"""Each answer of docs/architecture.md names a file and something in it."""

import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

from tests.repository.documents import read
from tests.repository.project_tree import ROOT

PAGE = read("docs/architecture.md")
ANSWERS = re.findall(r"^\| ([^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


def test_there_are_twenty_questions():
    assert len(ANSWERS) >= 20


@pytest.mark.parametrize(("question", "path", "name"), ANSWERS, ids=[name for _, _, name in ANSWERS])
def test_an_answer_names_what_is_there(question: str, path: str, name: str):
    """The name is defined in that very file."""
    parts = Path(path).with_suffix("").parts
    module = importlib.import_module(".".join(parts[parts.index("delayed_tracker") :]))
    assert Path(str(module.__file__)) == ROOT / path, question
    assert attrgetter(name)(module).__module__ == module.__name__


def test_files_of_the_paths_are_there():
    """Each line of a path begins with a file below the package."""
    named = re.findall(r"^  (?:\(storage\) )?([a-z_]+/[a-z_/]+\.py)", PAGE, re.MULTILINE)
    assert len(named) > 20
    for path in named:
        assert list(ROOT.glob(f"*/delayed_tracker/{path}")) or list(ROOT.glob(f"*/delayed_tracker/storage/{path}")), (
            path
        )
