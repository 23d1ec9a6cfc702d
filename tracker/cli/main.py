"""``delayed-tracker``: the subcommands."""

from tracker.cli.running import Program

PROGRAM = Program(
    "delayed-tracker",
    about=(
        "Tracks delayed messages of ledger-based message brokers: which are due, never early, never lost.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or configuration, 3 address in use, 4 storage "
        "unusable, 5 service unavailable, 6 tracker not open or somebody else's, 7 damaged or missing data."
    ),
    commands={
        "serve": "tracker.cli.serve:serve",
        "replay": "tracker.cli.replay:replay",
        "demo": "tracker.cli.demo.command:demo",
        "trackers": "tracker.cli.trackers:trackers",
        "open": "tracker.cli.open_tracker:open_tracker",
        "add": "tracker.cli.add:add",
        "poll": "tracker.cli.poll:poll",
        "cancel": "tracker.cli.cancel:cancel",
        "seal": "tracker.cli.seal:seal",
        "delete": "tracker.cli.delete:delete",
        "top": "tracker.cli.top.command:top",
        "stats": "tracker.cli.stats:stats",
        "buckets": "tracker.cli.buckets:buckets",
        "peek": "tracker.cli.peek:peek",
        "explain": "tracker.cli.explain:explain",
        "histogram": "tracker.cli.histogram:histogram",
        "verify": "tracker.cli.verify:verify",
        "config": "tracker.cli.config:config",
        "assets": "tracker.cli.assets:assets",
        "warm": "tracker.cli.warm:warm",
    },
    groups={"topics": "tracker.cli.topics.commands:app", "ledgers": "tracker.cli.ledgers.commands:app"},
)


def run() -> None:
    """Entry point of the installed command."""
    PROGRAM.run()
