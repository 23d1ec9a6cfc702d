"""Command ``delayed-tracker demo``: tracks and delivers real messages through a kill -9, and checks each claim."""
