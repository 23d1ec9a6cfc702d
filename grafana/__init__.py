"""Grafana's boards, as code: ``python -m grafana.regenerate`` writes ``grafana/dashboards``."""
