"""Combines calls: adds into batches, acks and polls of several callers into one call each.

Takes the requests of callers, gives the batches that are sent together, and gives each caller its part of the answer.
Open ``add_queue.py`` first.
"""
