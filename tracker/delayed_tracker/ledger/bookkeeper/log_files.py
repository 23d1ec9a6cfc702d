"""Finds the entry logs in the ledger directories of bookies and opens them."""

import gzip
import mmap
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES, LogDamage
from delayed_tracker.ledger.errors import OTHER_BOOKIES, BadEntry

_LOG_NAME: Final = re.compile(r"([0-9a-f]+)\.log(\.gz)?")
_GZIP_PIECE_BYTES: Final = 1 << 20
UNPACKED_BYTES_MAX: Final = (1 << 30) + (64 << 20)
"""Most bytes that a gzip log may unpack to. Bookies refuse a ``logSizeLimit`` above 1 GiB and add a map of the ledgers
to each log."""


def find_log_files(directories: Sequence[str | Path]) -> list[Path]:
    """Return the entry logs of one or more bookies, each once, those of one directory in the order of writing.

    Args:
        directories: ledger directories of all bookies together. Each may also be the ``current`` directory inside, or a
            single log. Logs are ``<hex id>.log``, or ``.log.gz`` in an archive.
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
    """Return the mapped bytes of a log, and what is wrong with its gzip file, if anything.

    A gzip log is unpacked into an unnamed file in the system's directory for temporary files (``TMPDIR``). The file is
    deleted when the map is freed. It uses disk and not memory, provided that this directory is on a disk.

    Raises:
        OSError: the file cannot be read or unpacked.
    """
    if file.suffix == ".gz":
        return _gunzip(file)
    with file.open("rb") as opened:
        return _mapped(opened, file.stat().st_size), None


def _mapped(opened: IO[bytes], size: int) -> bytes | mmap.mmap:
    # A file that ends within the header may be empty, and an empty file cannot be mapped.
    if size <= HEADER_BYTES:
        return opened.read(size)
    return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def release_pages(log: bytes | mmap.mmap, start: int, end: int) -> None:
    """Let the process forget the pages of a stretch of :func:`open_log_file`; a later use maps them again.

    Otherwise everything that was read counts as memory of the process until the log is closed: 5.2 GB after 20 million
    records. The pages stay in the system's file cache.
    """
    if isinstance(log, mmap.mmap):
        first = start - start % mmap.PAGESIZE
        log.madvise(mmap.MADV_DONTNEED, first, end - first)


def bad_stretches(file: Path, size_bytes: int, wrapping: str | None, damage: Sequence[LogDamage]) -> list[BadEntry]:
    """Return the bad stretches of a log.

    Args:
        file: path of the log.
        size_bytes: bytes that could be unpacked.
        wrapping: what is wrong with the gzip file, from :func:`open_log_file`.
        damage: stretches of the log that are not records.
    """
    bad = [] if wrapping is None else [BadEntry(None, None, str(file), size_bytes, wrapping, remedy=OTHER_BOOKIES)]
    return bad + [
        BadEntry(
            place.ledger_id,
            place.entry_id,
            str(file),
            place.offset,
            place.reason,
            entry_count=place.count,
            remedy=OTHER_BOOKIES,
        )
        for place in damage
    ]


def _gunzip(file: Path) -> tuple[bytes | mmap.mmap, str | None]:
    with tempfile.TemporaryFile(prefix="delayed-tracker-") as unpacked:
        wrong = None
        try:
            for piece in _pieces(file):
                if unpacked.tell() + len(piece) > UNPACKED_BYTES_MAX:
                    wrong = (
                        f"the gzip file unpacks to more than {UNPACKED_BYTES_MAX} bytes, which no bookie's log has; if it "
                        "should, unpack it by gunzip and give the plain file"
                    )
                    break
                _keep(piece, unpacked, file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            wrong = f"the gzip file is cut short or damaged: {error}"
        size = unpacked.seek(0, os.SEEK_END)
        unpacked.seek(0)
        return _mapped(unpacked, size), wrong


def _pieces(file: Path) -> Iterator[bytes]:
    with gzip.open(file) as packed:
        while piece := packed.read1(_GZIP_PIECE_BYTES):
            yield piece


def _keep(piece: bytes, unpacked: IO[bytes], file: Path) -> None:
    try:
        unpacked.write(piece)
        unpacked.flush()
    except OSError as error:
        place = f"in {tempfile.gettempdir()}, where it is unpacked: set TMPDIR to a directory with room, or unpack it"
        raise OSError(error.errno, f"{error.strerror} {place}", str(file)) from error
