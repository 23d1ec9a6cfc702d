"""Commands of ``delayed-tracker pulsar`` about the buckets of a live Pulsar cluster.

Open ``commands.py`` first.
"""
