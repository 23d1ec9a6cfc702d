"""Reads ledgers from tiered storage, as written by Pulsar's filesystem driver and blob store driver."""
