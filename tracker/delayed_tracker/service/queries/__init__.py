"""Read-only queries: explain, peek, histogram, listing, verification, ledgers.

Takes an open tracker or the catalogue, returns frozen values.
Open ``explain.py`` first.
"""
