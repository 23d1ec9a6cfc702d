"""Runs a program and ends it: an error is one line on stderr and an exit status, never a traceback."""

import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TextIO

import typer

from delayed_tracker.cli.exit_codes import ExitCode, exit_code_of
from delayed_tracker.cli.terminal.failures import CommandLine, bad_usage, print_error
from delayed_tracker.cli.terminal.output import for_machines, notice
from delayed_tracker.core.kernels.compile_notice import call_once_before_compiling
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.process.garbage_collection import without_collection

BROKEN_PIPE_STATUS: Final = 128 + signal.SIGPIPE
"""Exit status after a broken pipe: the status that shells report for a process ended by SIGPIPE."""


_TELL_OF_COMPILING: Final = (["serve"], ["warm"], ["demo"])
"""Commands that report the compilation in their own way."""


def _make_app(program: str, about: str) -> typer.Typer:
    """Return a program with a ``--version`` option and without commands.

    Args:
        program: its name.
        about: the first paragraphs of its help.
    """
    app = typer.Typer(
        name=program,
        help=about,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(asked: bool) -> None:
        if asked:
            typer.echo(f"{program} {version_of('delayed-tracker')}")
            raise typer.Exit

    @app.callback()
    def options(
        *,
        _: Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """Accept the options before a command."""

    return app


@dataclass(frozen=True, slots=True)
class Program:
    """Installed program. Only the chosen command is imported, because some commands need numba or Spark."""

    name: str
    about: str
    """First paragraphs of its help."""
    commands: Mapping[str, str]
    """Function of each command: ``module:function``."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """``typer.Typer`` of each group of commands: ``module:name``."""

    def app(self, arguments: Sequence[str] = ()) -> typer.Typer:
        """Import the command that the arguments begin with, or all commands if they begin with none, as for help."""
        app = _make_app(self.name, self.about)
        chosen = next(iter(arguments), None)
        is_known = chosen in self.commands or chosen in self.groups
        for name, place in self.commands.items():
            if name == chosen or not is_known:
                app.command(name)(_imported(place))
        for name, place in self.groups.items():
            if name == chosen or not is_known:
                app.add_typer(_imported(place), name=name)
        return app

    def command_names(self) -> list[str]:
        """Return the names of all commands, those of a group after its name; imports all of them."""
        return _names_of(self.app())

    def run(self) -> NoReturn:
        """Run the command line, and exit."""
        _run_program(self.app(sys.argv[1:]), self.name)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    with without_collection():
        return getattr(import_module(module), name)


def _run_program(app: typer.Typer, program: str) -> NoReturn:
    _prepare_streams()
    if sys.argv[1:2] not in _TELL_OF_COMPILING:
        call_once_before_compiling(_tell_of_compiling)
    try:
        _run(app, CommandLine(sys.argv[1:], _names_of(app), program))
    except BrokenPipeError:
        pass
    except SystemExit as ended:
        # Rich and typer handle a broken pipe themselves, and exit with the status of a failed check.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
    _discard_pending_output()
    sys.exit(BROKEN_PIPE_STATUS)


def _run(app: typer.Typer, line: CommandLine) -> NoReturn:
    try:
        # Without standalone mode, typer.Exit's status is returned, and usage errors are raised and printed here.
        with for_machines(line.as_json):
            status = app(args=list(line.arguments) or ["--help"], standalone_mode=False)
        if sys.stdout is not None:
            # At the end of the interpreter, a failure could not be reported any more.
            sys.stdout.flush()
        sys.exit(status if line.arguments else ExitCode.USAGE)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Input files have errors of their own. The rest is mostly an output that cannot be written.
        what, done = ("the answer", "written") if error.filename is None else (str(error.filename), "used")
        print_error(DelayedTrackerError(f"{what} cannot be {done}: {error.strerror or error}"), line)
        _discard_pending_output()
        sys.exit(ExitCode.FAILURE)
    except typer.TyperException as error:
        print_error(bad_usage(error, line), line)
        sys.exit(ExitCode.USAGE)
    except DelayedTrackerError as error:
        print_error(error, line)
        sys.exit(exit_code_of(error))


def _tell_of_compiling() -> None:
    notice("compiling kernels, once for each version and user; `delayed-tracker warm` does so ahead")


def _names_of(app: typer.Typer) -> list[str]:
    """Return the names of the imported commands and groups; a group's commands are named "topics list"."""
    names = [command.name for command in app.registered_commands if command.name]
    for group in app.registered_groups:
        assert group.name is not None
        assert group.typer_instance is not None
        names += [group.name, *(f"{group.name} {command.name}" for command in group.typer_instance.registered_commands)]
    return names


def _discard_pending_output() -> None:
    """Redirect the standard streams to /dev/null, otherwise flushing them fails at the end of the interpreter."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    streams: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)
    for stream in filter(None, streams):
        with suppress(OSError):  # not every stream has a descriptor
            os.dup2(nowhere, stream.fileno())


def _prepare_streams() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal's encoding lacks are printed as escapes.
        sys.stdout.reconfigure(errors="backslashreplace")
    stderr: TextIO | None = sys.stderr
    if stderr is None:
        # The parent process closed stderr: it does not want the messages.
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open as long as the process
    survive_full_stderr()


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
