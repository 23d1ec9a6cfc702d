"""Delayed-delivery tracker: which entries of a subscription are delayed, and which of them are due."""
