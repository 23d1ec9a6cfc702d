"""The installed package: the contents of the wheel, and a dispatcher's client with only the base dependencies."""

import importlib
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from tests.repository.project_tree import PARTS, PROJECT, ROOT

NAME = re.compile(r"^[A-Za-z0-9._-]+")

IMPORT_WITHOUT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

module, *blocked = sys.argv[1:]
sys.meta_path.insert(0, Absent())
__import__(module)
"""


def names_of(requirements: list[str]) -> set[str]:
    names = set()
    for requirement in requirements:
        match = NAME.match(requirement)
        assert match is not None
        names.add(normalized(match[0]))
    return names - {PROJECT["name"]}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(name: str) -> list[str]:
    """Return the requirements of a package without extras; none if it is not for this platform."""
    try:
        return [row for row in metadata.requires(name) or [] if "extra ==" not in row]
    except metadata.PackageNotFoundError:
        return []


def modules_outside(*extras: str) -> set[str]:
    """Return the top-level modules of all packages that neither the base nor these extras install, even indirectly."""
    rows, opened = [*PROJECT["dependencies"]], set(extras)
    wanted = [*extras]
    while wanted:
        for row in PROJECT["optional-dependencies"][wanted.pop()]:
            rows.append(row)
            if row.startswith(PROJECT["name"]):
                new = set(row.partition("[")[2].rstrip("]").split(",")) - opened
                opened |= new
                wanted += new
    allowed = names_of(rows)
    queue = list(allowed)
    while queue:
        new = names_of(required_by(queue.pop())) - allowed
        allowed |= new
        queue += new
    return {
        module
        for module, distributions in metadata.packages_distributions().items()
        if not {normalized(name) for name in distributions} & (allowed | {PROJECT["name"]})
    }


@pytest.mark.slow
def test_wheel_holds_the_packages_and_nothing_else(wheel: zipfile.ZipFile):
    """The wheel has one top-level name, delayed_tracker, and the metadata; no other folders of the checkout."""
    roots = {name.partition("/")[0] for name in wheel.namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"delayed_tracker"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or "/test_" in name]


@pytest.mark.slow
def test_delayed_tracker_is_a_namespace_package(wheel: zipfile.ZipFile):
    """No part has an ``__init__.py``, which would hide all other parts in the checkout and in the wheel."""
    assert "delayed_tracker/__init__.py" not in wheel.namelist()
    assert [str(part / "__init__.py") for part in PARTS if (part / "__init__.py").exists()] == []
    packages = {name.split("/")[1] for name in wheel.namelist() if name.endswith("/__init__.py")}
    assert packages == {
        "bookkeeper", "cli", "client", "cluster", "core", "files", "ledger", "pulsar", "service", "snapshot", "spark", "storage",
        "v1", "wire",
    }  # fmt: skip


@pytest.mark.slow
def test_wheel_holds_every_source_file(wheel: zipfile.ZipFile):
    """The wheel has code, type markers, the demo's sample, generated code and sources of the API."""
    shipped = set(wheel.namelist())
    code = {path for part in PARTS[:-1] for path in part.rglob("*") if path.is_file()} | set(PARTS[-1].rglob("*.p*"))
    names = {path.relative_to(part.parent).as_posix() for part in PARTS for path in code if part in path.parents}
    assert {name for name in names if "__pycache__" not in name} <= shipped
    typed = {"bookkeeper", "cli", "client", "core", "files", "ledger", "service", "spark", "storage", "wire"}
    assert {f"delayed_tracker/{name}/py.typed" for name in typed} <= shipped


@pytest.mark.slow
def test_modules_beside_a_program_hide_none_of_ours(wheel: zipfile.ZipFile, tmp_path: Path):
    """A dispatcher with its own ``tracker.py`` or ``service.py`` can still import the client."""
    wheel.extractall(tmp_path / "installed")
    program = tmp_path / "program"
    program.mkdir()
    for name in ("tracker", "snapshot_storage", "spark_rebuild", "service", "client", "core", "files", "wire"):
        (program / f"{name}.py").write_text("raise AssertionError('imported by mistake')\n", encoding="utf-8")
    (program / "dispatcher.py").write_text("import delayed_tracker.client.blocking\n", encoding="utf-8")
    given = {"PYTHONPATH": str(tmp_path / "installed"), "HOME": str(tmp_path)}
    command = [sys.executable, "dispatcher.py"]
    result = subprocess.run(command, cwd=program, env=given, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_an_installed_service_brings_its_files(wheel: zipfile.ZipFile, tmp_path: Path):
    """Without a checkout, ``delayed-tracker assets`` writes the configuration, the rules and the boards."""
    installed, written = tmp_path / "installed", tmp_path / "written"
    wheel.extractall(installed)
    command = [sys.executable, "-c", "from delayed_tracker.cli.entry import run; run()", "assets", str(written)]
    given = {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
    result = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    found = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert found >= {
        "conf/tracker.conf",
        "conf/kubernetes/prometheus-operator/service-monitor.yaml",
        "conf/prometheus/alerting_rules.yml",
        "conf/systemd/delayed-tracker.service",
        "docs/runbooks.md",
        "grafana/dashboards/overview.json",
    }
    assert len(found) == len(result.stdout.splitlines())
    assert all((written / name).read_bytes() == (ROOT / name).read_bytes() for name in found)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["delayed_tracker.client", "delayed_tracker.v1.tracker_pb2_grpc"])
def test_client_needs_only_the_base_dependencies(module: str):
    """A dispatcher can import the client when all other packages are absent."""
    blocked = modules_outside()
    assert {"numpy", "pyroaring", "starlette", "structlog", "typer"} <= blocked
    command = [sys.executable, "-c", IMPORT_WITHOUT, module, *sorted(blocked)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_command_names_the_extra_that_is_missing():
    """A command without its extra prints the name of the extra, not a traceback."""
    command = [sys.executable, "-c", IMPORT_WITHOUT, "delayed_tracker.cli.__main__", *sorted(modules_outside())]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == ExitCode.USAGE
    assert result.stderr.startswith("delayed-tracker: the package 'typer' is not installed")
    assert "pip install 'delayed-tracker[server]'" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        (
            "bookkeeper",
            ["delayed_tracker.bookkeeper.metadata.ledger_store", "delayed_tracker.bookkeeper.wire.connection"],
        ),
        ("ledger", ["delayed_tracker.ledger.source_url", "delayed_tracker.storage.registry"]),
        ("objects", ["delayed_tracker.storage.objects.cloud"]),
        (
            "cli",
            ["delayed_tracker.cli.main", "delayed_tracker.cli.topics.commands", "delayed_tracker.cli.ledgers.commands"],
        ),
        (
            "spark",
            [f"delayed_tracker.cli.spark.{name}" for name in ("main", "rebuild", "verify", "index", "inspection")],
        ),
        ("server", ["delayed_tracker.service.server", "delayed_tracker.cli.service.serve"]),
    ],
)
def test_an_extra_is_enough_for_what_it_is_named_after(extra: str, modules: list[str]):
    """Modules of packages that the extra does not install, not even indirectly, are not imported."""
    blocked = modules_outside(extra)
    assert "opentelemetry" in blocked
    for module in modules:
        command = [sys.executable, "-c", IMPORT_WITHOUT, module, *sorted(blocked)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_blocked_modules_are_really_absent():
    """The check above detects an import of numpy."""
    command = [sys.executable, "-c", IMPORT_WITHOUT, "delayed_tracker.core.values.columns", "numpy"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "No module named 'numpy" in result.stderr


def test_dependency_bounds_cover_what_generated_the_code():
    """The dependency bounds exclude every grpcio and protobuf that the checked-in code refuses to work with."""
    lowest = dict(re.findall(r'^  "(grpcio|protobuf)>=([\d.]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))

    def parsed(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    for path in (ROOT / "proto").rglob("*_pb2.py"):
        (generated,) = re.findall(r"^# Protobuf Python Version: ([\d.]+)$", path.read_text(), re.MULTILINE)
        assert parsed(lowest["protobuf"]) >= parsed(generated)
    for path in (ROOT / "proto").rglob("*_pb2_grpc.py"):
        (generated,) = re.findall(r"^GRPC_GENERATED_VERSION = '([\d.]+)'$", path.read_text(), re.MULTILINE)
        assert parsed(lowest["grpcio"]) >= parsed(generated)


def test_generated_code_accepts_every_later_protobuf():
    """Generated code states no protobuf version: 5.28 and 6.30 to 6.31 warn at, or refuse, another major one."""
    for path in (ROOT / "proto").rglob("*_pb2.py"):
        assert "ValidateProtobufRuntimeVersion" not in path.read_text(encoding="utf-8"), path


def entry_points() -> list[str]:
    groups = [PROJECT["scripts"], *PROJECT["entry-points"].values()]
    return [target for group in groups for target in group.values()]


@pytest.mark.parametrize("target", entry_points())
def test_entry_points_name_what_exists(target: str):
    """Every command and storage scheme in pyproject.toml leads to a callable."""
    module, _, attribute = target.partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_license_travels_with_the_wheel(wheel: zipfile.ZipFile):
    """The metadata contain the text of the licence."""
    (text,) = [name for name in wheel.namelist() if Path(name).name == "LICENSE"]
    assert b"Apache License" in wheel.read(text)
