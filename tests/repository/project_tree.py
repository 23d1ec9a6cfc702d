"""Files of the checkout, for the tests of the project itself."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS = tuple(ROOT / name / "delayed_tracker" for name in ("tracker", "snapshot_storage", "spark_rebuild", "proto"))
"""Folders that together are the package, the generated code last."""
_LEFT_BY_TOOLS = {"__pycache__", "build", "data", "dist", "target"}
_TEXT_SUFFIXES = {"", ".conf", ".go", ".java", ".md", ".proto", ".py", ".pyi", ".toml", ".txt", ".xml", ".yaml", ".yml"}


def top_level() -> list[str]:
    """Return the names beside the README, ascending, without files that tools leave there."""
    return sorted(path.name for path in ROOT.iterdir() if not _is_left_by_tools(path))


def text_files() -> Iterator[Path]:
    """Yield every file that people write or read, in no order, without data of tests and demos."""
    return _text_files(ROOT)


def entries_by_folder() -> dict[str, int]:
    """Return the number of files and folders in each folder that people open, without data of tests and demos."""
    folders: dict[str, set[str]] = {}
    for path in text_files():
        inner = path.relative_to(ROOT)
        for folder in inner.parents:
            folders.setdefault(str(folder), set()).add(inner.relative_to(folder).parts[0])
    return {folder: len(names) for folder, names in folders.items()}


def _text_files(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if _is_left_by_tools(path):
            continue
        if path.is_dir():
            yield from _text_files(path)
        elif path.suffix in _TEXT_SUFFIXES:
            yield path


def _is_left_by_tools(path: Path) -> bool:
    if path.is_dir() and (path / "pyvenv.cfg").exists():
        return True
    if path.name.startswith(".") and path.name not in {".ci", ".gitignore"}:
        return True
    return path.name in _LEFT_BY_TOOLS or path.name.endswith(".egg-info")
