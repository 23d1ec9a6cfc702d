"""The reference pages and conf/tracker.conf say what the code does."""

import re
import shutil
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.settings.load import load_settings
from delayed_tracker.service.settings.settings import SETTING_KEYS, Settings
from docs.reference import errors, exit_codes, metrics, regenerate, settings
from tests.repository.project_tree import ROOT

CONF = ROOT / regenerate.CONF


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the pages, and a configuration file that is stale."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "conf").mkdir()
    (tmp_path / regenerate.CONF).write_text("stale\n", encoding="utf-8")
    return tmp_path


def test_every_page_is_fresh(capsys):
    """Each is what the code would write."""
    assert regenerate.main(["--check"], ROOT) == 0
    assert capsys.readouterr().err == ""


def test_stale_pages_are_named_and_written(checkout, capsys):
    """--check fails and says what to do; without it the table is replaced, and the rest of the page stays."""
    page = checkout / "docs" / "reference" / "metrics.md"
    table = page.read_text(encoding="utf-8")
    page.write_text(f"before\n{regenerate.BEGIN}\n| stale |\n{regenerate.END}\nafter\n", encoding="utf-8")
    assert regenerate.main(["--check"], checkout) == 1
    assert capsys.readouterr().err == (
        "conf/tracker.conf: stale; run `make reference`\ndocs/reference/metrics.md: stale; run `make reference`\n"
    )
    assert regenerate.main([], checkout) == 0
    assert regenerate.main(["--check"], checkout) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert text.partition(regenerate.BEGIN)[2].partition(regenerate.END)[0] in table


def test_a_page_without_a_place_for_its_table_is_an_error(checkout):
    """The message says which lines to add."""
    (checkout / "docs" / "reference" / "errors.md").write_text("# Errors\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"docs/reference/errors.md: put the lines"):
        regenerate.main(["--check"], checkout)


def test_conf_file_holds_every_key_at_its_default():
    """Loading the file gives the defaults, and each key comes from a line of it."""
    loaded = load_settings(CONF)
    assert loaded.settings == Settings()
    assert all(row.origin.startswith(f"{CONF}:") for row in loaded.rows())


def test_conf_file_gives_unit_default_and_range_of_every_key():
    """The comment above each line documents it fully."""
    for block in settings.render_conf().split("\n\n"):
        last = block.rsplit("\n", 1)[-1]
        key = last.partition("=")[0]
        if key in SETTING_KEYS:
            declared = SETTING_KEYS[key]
            facts = " ".join(line.removeprefix("# ") for line in block.split("\n"))
            assert f"Default: {declared.render(declared.default) or 'empty'}." in facts
            assert declared.allowed in facts
            assert not declared.unit or f"Unit: {declared.unit}." in facts


def test_the_table_of_metrics_has_every_family():
    """Name, type and each label."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| .+ \|$", metrics.render_table(), re.MULTILINE)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert listed == {family.name: (family.kind.value, set(family.labels)) for family in FAMILIES}


def test_the_table_of_exit_codes_has_every_code():
    """Number, name and meaning."""
    rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \| .+ \|$", exit_codes.render_table(), re.MULTILINE)
    assert [(int(number), name) for number, name in rows] == [(code.value, code.name) for code in ExitCode]


def test_the_table_of_errors_names_reasons_by_status():
    """Errors of calls, of the storage and of ledgers are among them; each has a meaning."""
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.+?) \| (.+) \|$", errors.render_table(), re.MULTILINE)
    found = {(status, reason) for status, reasons, _ in rows for reason in re.findall(r"\w+", reasons)}
    assert {
        ("FAILED_PRECONDITION", "FENCED"),
        ("NOT_FOUND", "TRACKER_NOT_OPEN"),
        ("RESOURCE_EXHAUSTED", "OVERLOADED"),
        ("UNAVAILABLE", "STORAGE_UNAVAILABLE"),
        ("DATA_LOSS", "ENTRIES_UNREADABLE"),
        ("ABORTED", "CLEARED"),
    } <= found
    assert all(meaning.endswith(".") for _, _, meaning in rows)
