"""``delayed-tracker ledgers``: the ledgers that topics are made of, whole."""
