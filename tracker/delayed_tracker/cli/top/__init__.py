"""``delayed-tracker top``: the busiest trackers of a service, live."""
