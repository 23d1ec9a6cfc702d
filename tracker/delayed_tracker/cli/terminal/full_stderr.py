"""Replaces stderr by a stream that drops its text when the disk is full, so that the command continues."""

import io
import os
import sys


class DroppingText(io.TextIOWrapper):
    """Text stream that tolerates a full disk. A broken pipe is still an error, and ends the command as elsewhere."""

    def write(self, text: str, /) -> int:
        """Write the text, or drop it and all later text."""
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Write the buffered text, or drop it and all later text."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError:
            self._drop()

    def _drop(self) -> None:
        # Otherwise each write, and the end of the interpreter, would try to write the buffered text again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def survive_full_stderr() -> None:
    """Replace ``sys.stderr``, if it is the process's own."""
    stderr = sys.stderr
    if stderr is sys.__stderr__ and type(stderr) is io.TextIOWrapper:
        encoding, errors = stderr.encoding, stderr.errors
        sys.stderr = sys.__stderr__ = DroppingText(  # type: ignore[misc]  # the interpreter's own stream must stay open
            stderr.detach(), encoding=encoding, errors=errors, line_buffering=True, write_through=True
        )
