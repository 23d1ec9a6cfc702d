"""The queries of boards and rules, and the names of metrics in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.repository.project_tree import ROOT

DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "conf" / "prometheus").glob("*_rules.yml"))

_METRIC = re.compile(r"\b(?:delayed_tracker|pulsar|grpc_server|process|python)_\w+")


def panels(path: Path) -> Iterator[dict]:
    """Yield the panels of a board that have queries."""
    return (panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row")


def panel_queries() -> Iterator[tuple[str, str]]:
    """Yield each query of each board, with its location."""
    for path in DASHBOARDS:
        for panel in panels(path):
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']} {target['refId']}", target["expr"]


def rules() -> Iterator[dict]:
    """Yield the recording and alerting rules."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def metrics_in(expr: str) -> set[str]:
    """Return the names of series, without those that a rule records."""
    return set(_METRIC.findall(re.sub(r"\b\w+:\w+:\w+", "", expr)))
