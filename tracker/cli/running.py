"""How a command ends, whichever program it belongs to: errors are one clear line and an exit status, never a traceback."""

import io
import os
import signal
import sys
from contextlib import suppress
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Final, NoReturn, TextIO

import typer

from tracker.cli.failures import CommandLine, bad_usage, print_error
from tracker.cli.output import notice_console
from tracker.core.errors import DelayedTrackerError
from tracker.core.jit import call_before_compiling
from tracker.service.exit_codes import ExitCode, exit_code_of

READER_GONE: Final = 128 + signal.SIGPIPE
"""How a command ends whose answer nobody reads any more: as shells report who ends by SIGPIPE."""


_TELL_OF_COMPILING: Final = (["serve"], ["warm"])
"""Commands that tell of it in their own way."""


def make_app(program: str, about: str) -> typer.Typer:
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


def run_app(app: typer.Typer, program: str) -> NoReturn:
    """Run what the command line says, and exit.

    Args:
        app: the commands.
        program: its name, for messages.
    """
    _prepare_streams()
    if sys.argv[1:2] not in _TELL_OF_COMPILING:
        call_before_compiling(_tell_of_compiling)
    try:
        _run(app, CommandLine(sys.argv[1:], names_of(app), program))
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
        status = app(args=list(line.arguments) or ["--help"], standalone_mode=False)
        if sys.stdout is not None:
            # At the end of the interpreter it would be too late to say that this failed.
            sys.stdout.flush()
        sys.exit(status if line.arguments else ExitCode.USAGE)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Files that commands are given have errors of their own; what is left is a place that takes no answer.
        print_error(DelayedTrackerError(f"the answer cannot be written: {error.strerror or error}"), line)
        _drop_what_is_unsaid()
        sys.exit(ExitCode.FAILURE)
    except typer.TyperException as error:
        print_error(bad_usage(error, line), line)
        sys.exit(ExitCode.USAGE)
    except DelayedTrackerError as error:
        print_error(error, line)
        sys.exit(exit_code_of(error))


def _tell_of_compiling() -> None:
    notice_console().print(
        "compiling kernels, once for each version and user; `delayed-tracker warm` does so ahead", soft_wrap=True
    )


def names_of(app: typer.Typer) -> list[str]:
    """All commands, groups included; those of a group behind its name: "topics", "topics list"."""
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
