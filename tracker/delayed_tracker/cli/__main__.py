"""``python -m delayed_tracker.cli``: the command where its script is not on the path."""

from delayed_tracker.cli.entry import run

run()
