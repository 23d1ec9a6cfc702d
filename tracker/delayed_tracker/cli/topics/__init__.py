"""Commands ``delayed-tracker topics``: read the messages of a topic from ledgers, without a broker."""
