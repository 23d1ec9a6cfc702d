"""Commands ``delayed-tracker topics``: read the messages of a topic from ledgers, without a broker.

Each takes URLs of ledgers and a topic, and prints messages, positions or statistics.
Open ``commands.py`` first.
"""
