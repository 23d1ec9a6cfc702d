"""The documentation of the settings agrees with the code."""

from pathlib import Path

import pytest

from delayed_tracker.service.settings import docs as settings_docs
from delayed_tracker.service.settings.load import load_settings
from delayed_tracker.service.settings.settings import Settings, setting_fields

ROOT = Path(__file__).resolve().parents[3]


def test_conf_file_is_fresh():
    """conf/tracker.conf is what the code would write."""
    assert (ROOT / settings_docs.CONF_PATH).read_text(encoding="utf-8") == settings_docs.render_conf()


def test_conf_file_holds_every_key_at_its_default():
    """Loading the file gives the defaults, and each key comes from a line of it."""
    loaded = load_settings(ROOT / settings_docs.CONF_PATH)
    assert loaded.settings == Settings()
    assert all(row.origin.startswith(f"{ROOT / settings_docs.CONF_PATH}:") for row in loaded.rows())


def test_conf_file_gives_unit_default_and_range_of_every_key():
    """The comment above each line documents it fully."""
    for block in settings_docs.render_conf().split("\n\n"):
        last = block.rsplit("\n", 1)[-1]
        key = last.partition("=")[0]
        if key in setting_fields():
            _, declared = setting_fields()[key]
            facts = " ".join(line.removeprefix("# ") for line in block.split("\n"))
            assert f"Default: {declared.render(declared.default) or 'empty'}." in facts
            assert declared.allowed in facts
            assert not declared.unit or f"Unit: {declared.unit}." in facts


def test_readme_table_is_fresh():
    """The table is what the code would write."""
    readme = (ROOT / settings_docs.README_PATH).read_text(encoding="utf-8")
    assert settings_docs.with_fresh_table(readme) == readme


def test_write_brings_stale_documents_up_to_date(tmp_path: Path, monkeypatch, capsys):
    """A check fails and names the stale files, a write updates them, and then the check passes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    Path("README.md").write_text(
        f"before\n{settings_docs.TABLE_BEGIN}\n| stale row |\n{settings_docs.TABLE_END}\nafter\n"
    )
    assert settings_docs.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "conf/tracker.conf: stale; run `make settings-docs`\nREADME.md: stale; run `make settings-docs`\n"
    )
    assert settings_docs.main(["--write"]) == 0
    assert settings_docs.main(["--check"]) == 0
    readme = Path("README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith("\nafter\n")
    assert "stale row" not in readme


def test_readme_without_a_place_for_the_table_is_an_error():
    """The message has the lines to add."""
    with pytest.raises(ValueError, match="put the lines"):
        settings_docs.with_fresh_table("# readme\n")


@pytest.mark.parametrize(("option", "first"), [("--conf", "# Settings of"), ("--table", "| key | default |")])
def test_documents_can_be_printed(option: str, first: str, capsys):
    """Each document is printed on its own."""
    assert settings_docs.main([option]) == 0
    assert capsys.readouterr().out.startswith(first)
