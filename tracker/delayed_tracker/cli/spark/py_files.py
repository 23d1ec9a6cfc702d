"""Command ``spark-rebuild py-files``: writes the installed packages as one archive for Spark's ``--py-files``.

Executors then need the libraries of the extra, but not this package, so driver and executors cannot differ in version.
Python imports a namespace package from an archive only if the archive has entries for its directories. A wheel has none.
The archive also has the entry points, by which executors find the storage of a URL.
"""

import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated

import typer

import delayed_tracker
from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import counted, print_json, say
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.files.full_disk import FULL_DISK
from delayed_tracker.files.replacing import replacing


class ArchiveNotWritten(DelayedTrackerError):
    """There is no room for the archive; an existing one is as it was. Make room, and run the command again."""

    reason = "ARCHIVE_NOT_WRITTEN"


def py_files_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.zip", help="The archive; replaced if it exists.", callback=reject_tilde_path)
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Write the packages of this installation to an archive for spark-submit --py-files.

    Example: spark-rebuild py-files delayed_tracker.zip
    """
    if file.suffix != ".zip":
        raise InvalidInput(
            "FILE.zip", str(file), "give a name that ends in .zip: Spark adds no other archive to the path"
        )
    count = 0
    try:
        with replacing(file) as written, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, source in sorted(_members().items()):
                archive.write(source, name)
                count += source.is_file()
            for name, content in _metadata().items():
                archive.writestr(name, content)
                count += 1
    except OSError as error:
        if error.errno in FULL_DISK:
            raise ArchiveNotWritten(
                f"{file} cannot be written: {error.strerror}; make room, and run it again"
            ) from error
        remedy = "give a file in a directory that can be written"
        raise InvalidInput("FILE.zip", str(file), f"{error.strerror}; {remedy}") from error
    if as_json:
        print_json({"file": str(file), "files": count})
    else:
        say(f"{counted(count, 'file')} written to {file}")


def _members() -> dict[str, Path]:
    """Return every directory and file of the packages by its name in the archive, wherever it is installed."""
    members = {"delayed_tracker/": Path(delayed_tracker.__path__[0])}
    for root in map(Path, delayed_tracker.__path__):
        for path in root.rglob("*"):
            if "__pycache__" not in path.parts:
                name = f"delayed_tracker/{path.relative_to(root).as_posix()}"
                members.setdefault(f"{name}/" if path.is_dir() else name, path)
    return members


def _metadata() -> dict[str, str]:
    """Return the files of the distribution's metadata that say its name and its entry points."""
    installed = distribution("delayed-tracker")
    folder = f"delayed_tracker-{installed.version}.dist-info"
    contents = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    return {f"{folder}/{name}": content for name, content in contents.items() if content is not None}
