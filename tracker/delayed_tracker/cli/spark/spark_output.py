"""Collects the output of Spark's own processes: in a file of the user, or the end of it in memory for a failure."""

import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from types import TracebackType
from typing import Final, Self, TextIO

from delayed_tracker.core.values.errors import InvalidInput

KEPT_BYTES_MAX: Final = 2**20
"""Bytes kept in memory at most; older ones are dropped."""
_READ_BYTES: Final = 2**16
_CATCH_UP_S: Final = 1.0
_ERROR: Final = re.compile(r"^.*(?:Error|Exception|Invalid|Unrecognized|Conflicting)\b.*$", re.MULTILINE)

_SILENT: Final = logging.NullHandler()
"""Stays when an output is closed, so that no library adds a handler for stderr."""


class SparkOutput:
    """Receives the output of Spark's Java process and its Python workers, and the log of this process's libraries.

    A context manager; the other processes may write after the block has ended.

    Args:
        file: file to append to, without a limit; None keeps the last ``KEPT_BYTES_MAX`` in memory.
    Raises:
        InvalidInput: the file cannot be written.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._kept = bytearray()
        self._reader: Thread | None = None
        self._begin = 0
        if file is None:
            source, self._descriptor = os.pipe()
            # The thread ends when the last writer closes the pipe, perhaps after the main thread.
            self._reader = Thread(target=self._keep_from, args=(source,), name="spark output", daemon=True)
            self._reader.start()
        else:
            try:
                self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            except OSError as error:
                remedy = f"{error.strerror}: give a file that can be written"
                raise InvalidInput("--spark-log", str(file), remedy) from error
            self._begin = os.fstat(self._descriptor).st_size
        # Without any handler, py4j would print tracebacks to stderr: of an interrupt, and of a Java that has gone, which
        # its finalizer thread may find after the end of the block.
        self._logged = _LibraryLog(os.fdopen(self._descriptor, "w", closefd=False, encoding="utf-8"))
        logging.getLogger().addHandler(self._logged)
        logging.getLogger().addHandler(_SILENT)

    def __enter__(self) -> Self:
        """Return the collector; see the class."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close this process's end."""
        self._close()

    def fileno(self) -> int:
        """Return the file descriptor for the processes to write to."""
        return self._descriptor

    def first_error(self) -> str:
        """Return the first line that looks like an error, for example of a Java that does not start; "" without one."""
        found = _ERROR.search(self._end().decode("utf-8", "replace"))
        return found.group().strip().removeprefix('Exception in thread "main" ') if found else ""

    def place(self) -> str:
        """Return a sentence with the file of the output; output in memory is first written to a file, which stays."""
        if self._file is not None:
            return f"Spark's log is {self._file}"
        try:
            with NamedTemporaryFile(prefix="spark-rebuild-", suffix=".log", delete=False) as kept:
                kept.write(self._end())
        except OSError as error:
            return f"Spark's log cannot be kept: {error.strerror}"
        return f"Spark's log is {kept.name}"

    def _keep_from(self, source: int) -> None:
        with open(source, "rb", buffering=0) as pipe:
            while read := pipe.read(_READ_BYTES):
                self._kept += read
                del self._kept[:-KEPT_BYTES_MAX]

    def _end(self) -> bytes:
        if self._file is not None:
            with self._file.open("rb") as written:
                written.seek(max(self._begin, written.seek(0, os.SEEK_END) - KEPT_BYTES_MAX))
                return written.read()
        # The reader ends at once if all writers have ended; otherwise it gets a second.
        self._close()
        assert self._reader is not None
        self._reader.join(_CATCH_UP_S)
        return bytes(self._kept)

    def _close(self) -> None:
        if self._descriptor >= 0:
            logging.getLogger().removeHandler(self._logged)
            self._logged.close()
            os.close(self._descriptor)
            self._descriptor = -1


class _LibraryLog(logging.StreamHandler[TextIO]):
    """Writes the log of libraries.

    Drops lines that a full disk refuses, and those of a thread that has found this handler just before its end.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name that logging gives it
        """Drop the line: the command reports its own error, and a traceback on stderr would hide it."""

    def close(self) -> None:
        """Close the stream, after a line that another thread is writing."""
        self.acquire()
        try:
            with suppress(OSError):  # a line that the full disk refused is tried again
                self.stream.close()
        finally:
            self.release()
        super().close()
