"""Ledgers kept in a local directory: one writer per topic, readers at any time."""
