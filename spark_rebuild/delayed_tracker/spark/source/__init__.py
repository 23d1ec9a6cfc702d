"""Data source ``pulsar_ledger``: entries of topics as rows.

Takes options of a query, gives Arrow batches.
Open ``pulsar_ledger.py`` first.
"""
