"""The files of entry logs: found in a bookie's ledger directories, and opened."""

import gzip
import mmap
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracker.core.errors import InvalidInput
from tracker.ledger.entry_log import HEADER_BYTES, LogDamage
from tracker.ledger.errors import OTHER_BOOKIES, BadEntry

_LOG_NAME: Final = re.compile(r"([0-9a-f]+)\.log(\.gz)?")
_GZIP_PIECE_BYTES: Final = 1 << 20


def find_log_files(directories: Sequence[str | Path]) -> list[Path]:
    """The entry logs of one or more bookies, each once, those of a directory in the order in which they were written.

    Args:
        directories: ledger directories (or the ``current`` directory inside, or single logs), of all bookies
            together. Logs are ``<hex id>.log``, or ``.log.gz`` as an archive keeps them.
    Raises:
        InvalidInput: a directory does not exist or has no logs.
    """
    if not directories:
        raise InvalidInput("log_directories", list(directories), "give at least one ledger directory of a bookie")
    files: list[Path] = []
    for directory in map(Path, directories):
        found = [directory] if directory.is_file() else _find_logs(directory)
        if not found:
            raise InvalidInput(
                "log_directories", str(directory), "give a directory with entry logs: <hex id>.log or <hex id>.log.gz"
            )
        files += [file for file in found if file not in files]
    return files


def _find_logs(directory: Path) -> list[Path]:
    if (directory / "current").is_dir():
        directory /= "current"
    if not directory.is_dir():
        raise InvalidInput("log_directories", str(directory), "give a directory that exists")
    found = [(match, file) for file in directory.iterdir() if (match := _LOG_NAME.fullmatch(file.name)) is not None]
    return [file for _, file in sorted(found, key=lambda pair: (int(pair[0][1], 16), pair[1].name))]


def open_log_file(file: Path) -> tuple[bytes | mmap.mmap, str | None]:
    """A log's bytes, mapped if it is plain, and what is wrong with its gzip wrapping.

    Raises:
        OSError: it cannot be read.
    """
    if file.suffix == ".gz":
        return _gunzip(file)
    with file.open("rb") as opened:
        size = file.stat().st_size
        # A file that ends within the header may be empty, which cannot be mapped.
        if size <= HEADER_BYTES:
            return opened.read(), None
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ), None


def bad_stretches(file: Path, size_bytes: int, wrapping: str | None, damage: Sequence[LogDamage]) -> list[BadEntry]:
    """What is wrong with a log.

    Args:
        file: its path.
        size_bytes: what could be unwrapped of it.
        wrapping: what is wrong with its wrapping, as :func:`open_log_file` says.
        damage: the stretches of it that are no records.
    """
    bad = [] if wrapping is None else [BadEntry(None, None, str(file), size_bytes, wrapping, remedy=OTHER_BOOKIES)]
    return bad + [
        BadEntry(place.ledger_id, place.entry_id, str(file), place.offset, place.reason, remedy=OTHER_BOOKIES)
        for place in damage
    ]


def _gunzip(file: Path) -> tuple[bytes, str | None]:
    pieces = []
    try:
        with gzip.open(file) as unpacked:
            while piece := unpacked.read1(_GZIP_PIECE_BYTES):
                pieces.append(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return b"".join(pieces), f"the gzip file is cut short or damaged: {error}"
    return b"".join(pieces), None
