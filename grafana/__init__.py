"""Grafana's dashboards as code: ``python -m grafana.regenerate`` writes ``grafana/dashboards``."""
