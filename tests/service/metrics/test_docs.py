"""The documentation's table of metrics equals the catalogue."""

import re
from pathlib import Path

from delayed_tracker.service.exposition import docs
from delayed_tracker.service.instruments.catalogue import FAMILIES

README = Path(__file__).resolve().parents[3] / "README.md"


def test_the_table_is_fresh():
    """The table is what the code would write."""
    readme = README.read_text(encoding="utf-8")
    assert docs.with_table(readme, docs.TABLE_BEGIN, docs.TABLE_END, docs.render_table()) == readme


def test_the_table_has_every_metric_and_no_other():
    """The table has the name, the type and each label of every metric."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| .+ \|$", docs.render_table(), re.MULTILINE)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert listed == {family.name: (family.kind.value, set(family.labels)) for family in FAMILIES}


def test_a_stale_table_is_told_and_mended(tmp_path, monkeypatch, capsys):
    """A check fails with the remedy, and a write replaces the table and nothing else."""
    monkeypatch.chdir(tmp_path)
    stale = f"before\n{docs.TABLE_BEGIN}\n| stale |\n{docs.TABLE_END}\nafter\n"
    Path("README.md").write_text(stale, encoding="utf-8")
    assert docs.main(["--check"]) == 1
    assert capsys.readouterr().err == "README.md: stale; run `make metrics-docs`\n"
    assert docs.main(["--write"]) == 0
    assert docs.main(["--check"]) == 0
    text = Path("README.md").read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "stale" not in text
    capsys.readouterr()
    assert docs.main(["--table"]) == 0
    assert capsys.readouterr().out in text
