"""Tests for authors of backends: the contract, and a storage that fails on purpose.

Takes a storage URL, returns checks that any test runner can run. Open ``contract.py`` first.
"""
