"""Combines calls: adds into batches, acks and polls of several callers into one call each.

Takes what callers want, gives what leaves together, and gives each caller its own part of the answer.
Open ``add_queue.py`` first.
"""
