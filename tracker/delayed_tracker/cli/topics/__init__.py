"""``delayed-tracker topics``: the messages of a topic, out of the ledgers that somebody left."""
