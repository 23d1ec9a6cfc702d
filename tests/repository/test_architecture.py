"""Each answer of docs/architecture.md names a file and something in it."""

import ast
import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

from tests.repository.documents import read
from tests.repository.project_tree import PARTS, ROOT, entries_by_folder

PAGE = read("docs/architecture.md")
ANSWERS = re.findall(r"^\| ([^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


ROOMS = sorted(path for part in PARTS[:-1] for path in part.rglob("__init__.py"))


@pytest.mark.parametrize("path", ROOMS, ids=[str(path.parent.relative_to(ROOT)) for path in ROOMS])
def test_a_package_says_which_file_to_open_first(path: Path):
    """The docstring names a file of the package."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    first = re.search(r"Open\s+``(\S+)``", docstring)
    assert first, "end the docstring with: Open ``FILE`` first."
    assert (path.parent / first[1]).is_file()


def test_no_folder_is_crowded():
    """A folder has at most twenty entries, package marker and all."""
    assert {folder: count for folder, count in entries_by_folder().items() if count > 20} == {}


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
