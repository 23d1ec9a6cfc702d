"""Command ``delayed-tracker top``: shows the busiest trackers of a service, live."""
