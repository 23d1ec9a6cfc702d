"""Answers that change nothing: explain, peek, histogram, listing, verification, ledgers.

Takes an open tracker or the catalogue, gives frozen values.
Open ``explain.py`` first.
"""
