"""How a command ends, whichever program it belongs to: errors are one clear line and an exit status, never a traceback."""

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
from delayed_tracker.cli.terminal.full_stderr import survive_full_stderr
from delayed_tracker.cli.terminal.output import for_machines, notice_console, progress_shown
from delayed_tracker.core.kernels.compile_notice import call_once_before_compiling
from delayed_tracker.core.values.errors import DelayedTrackerError

READER_GONE: Final = 128 + signal.SIGPIPE
"""How a command ends whose answer nobody reads any more: as shells report who ends by SIGPIPE."""


_TELL_OF_COMPILING: Final = (["serve"], ["warm"], ["demo"])
"""Commands that tell of it in their own way."""


def _make_app(program: str, about: str) -> typer.Typer:
    """A program without commands yet, which can say its version.

    Args:
        program: its name.
        about: what its help begins with.
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
        """What can stand before a command."""

    return app


@dataclass(frozen=True, slots=True)
class Program:
    """An installed program: its commands are imported when they are asked for, since some need numba or Spark."""

    name: str
    about: str
    """The first paragraphs of its help."""
    commands: Mapping[str, str]
    """Where each command's function is: ``module:function``."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Where the ``typer.Typer`` of each group of commands is."""

    def app(self, arguments: Sequence[str] = ()) -> typer.Typer:
        """Import the command that the arguments begin with; all of them if they begin with none, as for help."""
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
        """Name all commands, those of a group behind its name; imports all of them."""
        return _names_of(self.app())

    def run(self) -> NoReturn:
        """Run what the command line says, and exit."""
        _run_program(self.app(sys.argv[1:]), self.name)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
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
        # Rich and typer notice a broken pipe themselves, and end with the status of a check that did not hold.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
    _drop_what_is_unsaid()
    sys.exit(READER_GONE)


def _run(app: typer.Typer, line: CommandLine) -> NoReturn:
    try:
        # Without standalone mode the status of typer.Exit is returned, and usage errors are ours to print.
        with for_machines(line.as_json):
            status = app(args=list(line.arguments) or ["--help"], standalone_mode=False)
        if sys.stdout is not None:
            # At the end of the interpreter it would be too late to say that this failed.
            sys.stdout.flush()
        sys.exit(status if line.arguments else ExitCode.USAGE)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Files that commands are given have errors of their own; what is left is mostly a place that takes no answer.
        what, done = ("the answer", "written") if error.filename is None else (str(error.filename), "used")
        print_error(DelayedTrackerError(f"{what} cannot be {done}: {error.strerror or error}"), line)
        _drop_what_is_unsaid()
        sys.exit(ExitCode.FAILURE)
    except typer.TyperException as error:
        print_error(bad_usage(error, line), line)
        sys.exit(ExitCode.USAGE)
    except DelayedTrackerError as error:
        print_error(error, line)
        sys.exit(exit_code_of(error))


def _tell_of_compiling() -> None:
    if not progress_shown():
        return
    notice_console().print(
        "compiling kernels, once for each version and user; `delayed-tracker warm` does so ahead", soft_wrap=True
    )


def _names_of(app: typer.Typer) -> list[str]:
    """Name the commands that are imported, groups included; those of a group behind its name: "topics", "topics list"."""
    names = [command.name for command in app.registered_commands if command.name]
    for group in app.registered_groups:
        assert group.name is not None
        assert group.typer_instance is not None
        names += [group.name, *(f"{group.name} {command.name}" for command in group.typer_instance.registered_commands)]
    return names


def _drop_what_is_unsaid() -> None:
    """Empty what is buffered for a place that takes nothing, else the end of the interpreter fails over it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    streams: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)
    for stream in filter(None, streams):
        with suppress(OSError):  # Not every stream has a descriptor.
            os.dup2(nowhere, stream.fileno())


def _prepare_streams() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that has no letter for a name shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    stderr: TextIO | None = sys.stderr
    if stderr is None:
        # Closed by whoever started us: what would be said there is not wanted.
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # open as long as the process
    survive_full_stderr()
