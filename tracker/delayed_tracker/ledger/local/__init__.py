"""Ledgers in a local directory: one writer for each topic, and any number of readers at any time."""
