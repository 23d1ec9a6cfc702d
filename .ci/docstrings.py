"""Refuses docstrings that open with a noun clause, such as "What is due." or "Whether it is due.".

Run by `make lint`; prints each place and ends with 1 if there is any.
"""

import ast
import re
import sys
from collections.abc import Iterator
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


def main() -> int:
    """Print what is refused, and return the exit code."""
    refused = 0
    for root in ROOTS:
        for path in sorted(Path(root).rglob("*.py")):
            if "_pb2" in path.name:
                continue
            for statement in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
                text = str(ast.literal_eval(statement.value)).lstrip()
                word = re.match(r"\w+", text)
                if word is not None and word[0] in REFUSED:
                    refused += 1
                    print(f"{path}:{statement.lineno}: begin with a verb or a noun, not with {word[0]!r}")  # noqa: T201
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
