"""Reads ledgers from tiered storage, as written by Pulsar's filesystem driver and blob store driver.

Takes a directory or a bucket, gives ledgers with verified entries.
Open ``offload_source.py`` first.
"""
