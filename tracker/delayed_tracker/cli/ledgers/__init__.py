"""Commands ``delayed-tracker ledgers``: work on the whole ledgers of topics."""
