"""Commands ``delayed-tracker ledgers``: work on the whole ledgers of topics.

Each takes URLs of ledgers, and lists, verifies or copies them.
Open ``commands.py`` first.
"""
