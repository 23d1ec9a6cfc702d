"""Publishes buckets for brokers: buckets of a storage or of a rebuild go in, ledgers and cursor properties come out.

Open ``publishing.py`` first.
"""
