"""Refuses docstrings that open with a noun clause, such as "What is due.", and sentences that open with a class's name.

The latter are what a rename leaves behind that has changed words of the prose, too: "CallAdmission that were refused".

Run by `make lint`; prints each place and ends with 1 if there is any.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOTS = ("tracker", "snapshot_storage", "spark_rebuild", "proto", "docs", "grafana", "tests", ".ci")
REFUSED = frozenset(
    [
        "Everybody",
        "Everything",
        "How",
        "Nobody",
        "Of",
        "Somebody",
        "What",
        "When",
        "Where",
        "Whether",
        "Which",
        "Who",
        "Whoever",
        "Whom",
        "Whose",
        "Why",
    ]
)


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield the docstrings of modules, classes and functions, and the strings behind attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *body], body, strict=False):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            opens = before is None and documented
            if isinstance(statement.value.value, str) and (opens or isinstance(before, ast.Assign | ast.AnnAssign)):
                yield statement


def class_names(trees: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names of classes that are no words of prose: those of several words."""
    names = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return frozenset(name for name in names if re.search("[a-z][A-Z]", name))


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings that are read as prose, with their lines: an opening word and a word in small letters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"\s*\w+ [a-z]", node.value):
            yield node.lineno, node.value


def main() -> int:
    """Print what is refused, and return the exit code."""
    paths = [path for root in ROOTS for path in sorted(Path(root).rglob("*.py")) if "_pb2" not in path.name]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    classes = class_names(trees.values())
    refused = 0
    for path, tree in trees.items():
        opening = [(row.lineno, str(ast.literal_eval(row.value)), REFUSED) for row in docstrings(tree)]
        opening += [(line, text, classes) for line, text in sentences(tree)]
        for line, text, words in opening:
            word = re.match(r"\s*(\w+)", text)
            if word is not None and word[1] in words:
                refused += 1
                print(f"{path}:{line}: begin with a verb or a noun, not with {word[1]!r}")  # noqa: T201
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
