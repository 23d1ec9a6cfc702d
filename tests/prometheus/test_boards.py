"""Boards and rules are fresh and complete and use only metrics that exist, and every metric is used."""

import json
import re
import subprocess

import pytest

from delayed_tracker.cli.spark.textfile import METRIC_NAMES
from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.instruments.family import Kind, Origin
from grafana.regenerate import DASHBOARDS as DASHBOARDS_DIRECTORY
from grafana.regenerate import differences, generate, main
from tests.prometheus.queries import DASHBOARDS, RULES, metrics_in, panel_queries, panels, rules
from tests.repository.project_tree import ROOT

HISTOGRAM_SERIES = ("_bucket", "_count", "_sum")
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of Prometheus' own library."""
NOT_ON_A_BOARD = {"grpc_server_started_total"}
"""Equals its sibling by status less the calls in flight, which have their own metric."""


def series() -> dict[str, str]:
    """Return every possible series with its family."""
    names = {}
    for family in FAMILIES:
        if family.kind is Kind.HISTOGRAM and family.origin is not Origin.PULSAR:
            names |= {family.name + suffix: family.name for suffix in HISTOGRAM_SERIES}
        else:
            names[family.name] = family.name
    return names | {name: name for name in OF_THE_PROCESS | set(METRIC_NAMES)}


def all_expressions() -> list[str]:
    return [expr for _, expr in panel_queries()] + [rule["expr"] for rule in rules()]


def test_checked_in_boards_are_fresh(capsys: pytest.CaptureFixture[str]):
    """`make boards` would change nothing."""
    assert main(["--check"]) == 0, capsys.readouterr().err


def test_differences_name_each_file():
    fresh, checked_in = {"new": "1", "changed": "1", "same": "1"}, {"changed": "2", "same": "1", "old": "1"}
    found = differences(fresh, checked_in)
    assert [row.split(":")[0] for row in found] == ["changed", "new", "old"]


def test_boards_have_names_that_stay():
    """Board names are stable, because links and bookmarks depend on them."""
    boards = {path.stem: json.loads(path.read_text()) for path in DASHBOARDS}
    assert {name: board["uid"] for name, board in boards.items()} == {
        "overview": "delayed-tracker-overview",
        "rebuild": "delayed-tracker-rebuild",
        "storage": "delayed-tracker-storage",
        "tracker": "delayed-tracker-tracker",
    }
    assert all(board["links"] and board["description"] for board in boards.values())
    assert {path.name for path in DASHBOARDS_DIRECTORY.glob("*.json")} == set(generate())


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_says_what_it_shows(path):
    """Every panel has a title, a description and the chosen data source; numbers have units."""
    numbers = [panel["id"] for panel in json.loads(path.read_text())["panels"]]
    assert numbers == list(range(1, len(numbers) + 1))
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        if panel["type"] in {"timeseries", "stat"}:
            assert panel["fieldConfig"]["defaults"]["unit"]


def test_variables_are_used():
    """Every variable of a board is used."""
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        text = json.dumps(list(panels(path)))
        for variable in board["templating"]["list"]:
            assert f"${variable['name']}" in text or f"${{{variable['name']}}}" in text, (path.stem, variable["name"])


@pytest.mark.parametrize(("where", "expr"), list(panel_queries()), ids=lambda text: text[:60])
def test_rates_fit_the_zoom(where: str, expr: str):
    """Queries use no fixed range: it shows gaps when one zooms in and averages away peaks when one zooms out."""
    assert set(re.findall(r"\[([^\]]*)\]", expr)) <= {"$__rate_interval"}, where
    assert "vector(0)" not in expr


def test_boards_and_rules_use_only_metrics_that_exist():
    used = set().union(*map(metrics_in, all_expressions()))
    assert used - series().keys() == set()


def test_every_metric_is_on_a_board_or_in_a_rule():
    known = series()
    used = {known[name] for expr in all_expressions() for name in metrics_in(expr) if name in known}
    assert set(known.values()) - used == NOT_ON_A_BOARD


def test_every_alert_says_what_to_do():
    """Every alert has a severity, a summary, a description and an existing runbook."""
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"page", "ticket"}
            assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
            page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            assert page == "docs/runbooks.md"
            assert anchor in anchors, rule["alert"]


def test_recorded_names_follow_the_convention():
    """A recorded name has level, metric and operation, as Prometheus recommends."""
    for rule in rules():
        if "record" in rule:
            assert re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9_]+", rule["record"])


def test_every_recorded_series_is_used():
    """Every recorded series is used, except offers by result, which are for users' own boards."""
    everything = " ".join(all_expressions())
    unused = {rule["record"] for rule in rules() if "record" in rule and rule["record"] not in everything}
    assert unused == {"job_instance_result:delayed_tracker_offered_indexes:rate5m"}


def test_every_alert_is_in_the_rules_own_test():
    text = (ROOT / "tests" / "prometheus" / "rules_test.yml").read_text()
    assert {rule["alert"] for rule in rules() if "alert" in rule} == set(re.findall(r"alertname: (\w+)", text))


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "config", "conf/prometheus/prometheus.yml"],
        ["check", "rules", *(str(path.relative_to(ROOT)) for path in RULES)],
        ["test", "rules", "tests/prometheus/rules_test.yml"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_finds_no_fault(arguments: list[str], promtool: str):
    done = subprocess.run([promtool, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr
