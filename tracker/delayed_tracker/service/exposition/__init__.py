"""Writes the metrics that Prometheus scrapes.

Takes the instruments and the open trackers, gives text.
Open ``exporter.py`` first.
"""
