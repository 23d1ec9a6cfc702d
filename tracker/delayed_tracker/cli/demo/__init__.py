"""Command ``delayed-tracker demo``: tracks and delivers real messages through a kill -9, and checks each claim.

Takes a sample of ledgers, gives a report and the exit status 0 if every check held.
Open ``command.py`` first.
"""
