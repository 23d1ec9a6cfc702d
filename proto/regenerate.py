"""Regenerates the checked-in protobuf code, or checks that it is fresh.

Every ``.proto`` file below this directory gives ``_pb2.py`` and ``_pb2.pyi`` beside it, and ``_pb2_grpc.py`` if it
defines a service. The generator is pinned in ``conf/locks/generator.txt``, so that the same sources give the same
bytes. It has an environment of its own below this one's, which ``make`` creates. It is much older than the packages of
developers, because generated code never runs with a protobuf or grpcio older than its generator.

    python proto/regenerate.py            write the files
    python proto/regenerate.py --check    compare only; exit 1 names every file that is stale, missing or left over
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GENERATOR = Path(sys.prefix) / "generator" / "bin" / "python"
PROTO_ROOT = Path(__file__).resolve().parent
GENERATED_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
SERVICE = re.compile(r"^service\s+\w+", re.MULTILINE)


class NoGenerator(Exception):
    """The generator's environment is missing; the message names the remedy."""


def generate(proto_root: Path, output_root: Path) -> dict[str, bytes]:
    """Compile every source below ``proto_root`` and return the generated files by their path relative to the root.

    Raises:
        SystemExit: a source does not compile; the compiler has printed the reason.
        NoGenerator: the generator is not installed.
    """
    sources = sorted(path.relative_to(proto_root).as_posix() for path in proto_root.rglob("*.proto"))
    services = [source for source in sources if SERVICE.search((proto_root / source).read_text(encoding="utf-8"))]
    _compile(proto_root, sources, f"--python_out={output_root}", f"--pyi_out={output_root}")
    if services:
        _compile(proto_root, services, f"--grpc_python_out={output_root}")
    return _generated_files(output_root)


def differences(fresh: dict[str, bytes], checked_in: dict[str, bytes]) -> list[str]:
    """Return one line for each file that is missing, stale or left over, ascending by path."""
    rows = []
    for path in sorted(fresh.keys() | checked_in.keys()):
        if path not in checked_in:
            rows.append(f"{path}: missing")
        elif path not in fresh:
            rows.append(f"{path}: left over, no source generates it")
        elif fresh[path] != checked_in[path]:
            rows.append(f"{path}: stale")
    return rows


def main(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Regenerate the protobuf code, or check that it is fresh.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as directory:
        try:
            fresh = generate(PROTO_ROOT, Path(directory))
        except NoGenerator as missing:
            print(missing, file=sys.stderr)
            return 1 if os.environ.get("CI") or not check else 0
    rows = differences(fresh, _generated_files(PROTO_ROOT))
    if check:
        for row in rows:
            print(f"proto/{row}; run `make proto`", file=sys.stderr)
        return 1 if rows else 0
    for row in rows:
        path, _, verdict = row.partition(": ")
        if verdict.startswith("left over"):
            (PROTO_ROOT / path).unlink()
            print(f"removed proto/{path}")
        else:
            (PROTO_ROOT / path).write_bytes(fresh[path])
            print(f"wrote proto/{path}")
    return 0


def _compile(proto_root: Path, sources: list[str], *options: str) -> None:
    if not GENERATOR.exists():
        raise NoGenerator("generated code not checked: its generator is not installed; run `make lint`")
    # The module finds the well-known types by itself.
    command = [str(GENERATOR), "-m", "grpc_tools.protoc", f"--proto_path={proto_root}", *options, *sources]
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603  # our own arguments
        raise SystemExit(1)


def _generated_files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*_pb2*")
        if path.name.endswith(GENERATED_SUFFIXES)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
