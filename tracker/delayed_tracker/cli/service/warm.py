"""Command ``delayed-tracker warm``: compiles the kernels ahead, for example when an image is built."""

import os
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.output import counted, print_json, progress, say
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path


def warm(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Compile the functions that sort, encode and decode to machine code, so that later starts need not compile them.

    It takes up to a minute, once for each version and user; later runs do nothing. The result is stored in
    delayed-tracker under the user's cache directory (XDG_CACHE_HOME), or in NUMBA_CACHE_DIR.

    Example: delayed-tracker warm
    """
    # These imports take a second.
    from delayed_tracker.core.kernels.jit import cache_directory  # noqa: PLC0415
    from delayed_tracker.service.process.kernels import SERVICE_KERNELS, is_cache_writable  # noqa: PLC0415

    for variable in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        directory = os.environ.get(variable, "")
        refuse_home_path(variable, directory, directory)
    if not is_cache_writable():
        remedy = "name a directory that can be written, in NUMBA_CACHE_DIR or XDG_CACHE_HOME"
        raise InvalidInput("cache directory", cache_directory(), remedy)
    compiled_count = load_with_progress()
    answer = {"kernels": len(SERVICE_KERNELS), "compiled": compiled_count, "cache": cache_directory()}
    if as_json:
        print_json(answer)
    else:
        say(f"{counted(compiled_count, 'kernel')} of {len(SERVICE_KERNELS)} compiled; kept in {answer['cache']}")


def load_with_progress() -> int:
    """Load all kernels, show progress if some must be compiled, and return the number of those."""
    from delayed_tracker.service.process.kernels import load_kernels  # noqa: PLC0415

    with progress("compiling kernels", "kernels") as show:
        return load_kernels(show)
