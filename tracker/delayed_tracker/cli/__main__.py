"""Runs the command as ``python -m delayed_tracker.cli``, for environments where its script is not on the path."""

from delayed_tracker.cli.entry import run

run()
