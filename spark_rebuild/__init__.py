"""Rebuilds the index of delayed messages from the ledgers themselves, with Spark."""
