"""A stderr that a full disk does not break: what cannot be written there is dropped, and the command goes on."""

import io
import os
import sys


class DroppingText(io.TextIOWrapper):
    """Text whose stream may be full; a reader that went away is still an error, which ends the command as elsewhere."""

    def write(self, text: str, /) -> int:
        """Write the text, or drop it and all that follows."""
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it and all that follows."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError:
            self._drop()

    def _drop(self) -> None:
        # What is buffered would be tried again with each write, and at the end of the interpreter.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def survive_full_stderr() -> None:
    """Replace ``sys.stderr``, if it is the process's own."""
    stderr = sys.stderr
    if stderr is sys.__stderr__ and type(stderr) is io.TextIOWrapper:
        encoding, errors = stderr.encoding, stderr.errors
        sys.stderr = sys.__stderr__ = DroppingText(  # type: ignore[misc]  # the interpreter's own must not be closed
            stderr.detach(), encoding=encoding, errors=errors, line_buffering=True, write_through=True
        )
