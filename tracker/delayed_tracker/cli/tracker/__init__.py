"""Commands of ``delayed-tracker`` about one tracker or the trackers of a service.

Each takes a service's address and a subscription, and prints a table or JSON.
Open ``poll.py`` first.
"""
