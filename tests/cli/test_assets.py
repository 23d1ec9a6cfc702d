"""Tests of the command that writes the service's files and overwrites no other ones."""

import json
import re
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from tests.repository.project_tree import ROOT

NAMES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        "conf/tracker.conf",
        "conf/kubernetes/**/*.yaml",
        "conf/prometheus/*.yml",
        "conf/systemd/*",
        "docs/runbooks.md",
        "grafana/dashboards/*.json",
    )
    for path in ROOT.glob(pattern)
)


def files_below(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def outcomes(ran) -> dict[str, str]:
    return {row["path"]: row["outcome"] for row in json.loads(ran.out)["files"]}


def test_everything_is_written_below_the_directory(command, tmp_path):
    """The files are written byte for byte, and each is listed."""
    place = tmp_path / "new" / "monitoring"
    ran = command("assets", str(place))
    assert ran.status == 0
    assert files_below(place) == {name: (ROOT / name).read_bytes() for name in NAMES}
    assert sorted(ran.out.splitlines()) == sorted(f"{place / name}: written" for name in NAMES)


def test_writing_again_changes_nothing(command, tmp_path):
    """Files with the same content are not written again."""
    first = outcomes(command("assets", str(tmp_path), "--json"))
    times = {path: path.stat().st_mtime_ns for path in map(Path, first)}
    again = outcomes(command("assets", str(tmp_path), "--json"))
    assert set(first.values()) == {"written"}
    assert set(again.values()) == {"unchanged"}
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_files_that_differ_are_not_overwritten_unasked(command, tmp_path):
    """If files differ, nothing is written and the error lists them; with --force only these are replaced."""
    edited = tmp_path / "conf/tracker.conf"
    edited.parent.mkdir()
    edited.write_text("logLevel=debug\n")
    refused = command("assets", str(tmp_path))
    assert refused.status == ExitCode.FAILURE
    assert "conf/tracker.conf; give another directory, or --force" in refused.err
    assert files_below(tmp_path) == {"conf/tracker.conf": b"logLevel=debug\n"}
    forced = outcomes(command("assets", str(tmp_path), "--force", "--json"))
    assert forced.pop(str(edited)) == "replaced"
    assert set(forced.values()) == {"written"}
    assert edited.read_bytes() == (ROOT / "conf/tracker.conf").read_bytes()


@pytest.mark.parametrize("blocked", [".", "conf", "conf/tracker.conf/"])
def test_a_place_that_takes_no_files_is_named(command, tmp_path, blocked):
    """A file in place of a directory, or the reverse, ends with one line, without a traceback and without new files."""
    place = tmp_path / "place"
    if blocked.endswith("/"):
        (place / blocked).mkdir(parents=True)
    else:
        (place / blocked).parent.mkdir(exist_ok=True)
        (place / blocked).write_text("a file")
    before = files_below(tmp_path)
    ran = command("assets", str(place), "--force")
    assert ran.status == ExitCode.USAGE
    assert ran.err.count("\n") == 1
    assert "name a directory that can be written" in ran.err
    assert files_below(tmp_path) == before


def test_the_runbooks_of_alerts_are_written_beside_them(command, tmp_path):
    """Each runbook_url of the alerts is a heading of a file below the same directory."""
    assert command("assets", str(tmp_path)).status == 0
    rules = (tmp_path / "conf/prometheus/alerting_rules.yml").read_text("utf-8")
    urls = set(re.findall(r"runbook_url: (\S+)", rules))
    assert urls
    for url in urls:
        path, _, anchor = url.partition("#")
        headings = re.findall(r"^## (.+)$", (tmp_path / path).read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}
