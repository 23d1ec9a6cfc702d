"""Reads ledgers that Pulsar wrote: entries, entry logs, managed-ledger and cursor metadata, and pending messages."""
