"""``delayed-tracker demo``: real messages tracked, delivered, lost to a kill -9 and recovered, with every claim checked."""
