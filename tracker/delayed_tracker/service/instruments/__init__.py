"""Measurements of the running service: counters, histograms, rows of trackers, storage calls.

Takes observations, holds numbers for ``exposition``.
Open ``instruments.py`` first, then ``catalogue.py``.
"""
