"""Ledgers that Pulsar wrote: entries, entry logs, managed-ledger and cursor metadata, and what is pending in them."""
