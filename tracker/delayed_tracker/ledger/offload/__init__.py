"""Reads ledgers out of tiered storage: what Pulsar's filesystem driver and its blob store driver wrote."""
