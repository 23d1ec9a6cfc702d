"""``python -m tracker.cli``: the command where its script is not on the path."""

from tracker.cli.entry import run

run()
