"""Program ``delayed-tracker`` and its subcommands."""

from delayed_tracker.cli.terminal.running import Program

PROGRAM = Program(
    "delayed-tracker",
    about=(
        "Tracks delayed messages of ledger-based message brokers: which are due, never early, never lost.\n\n"
        "Exit status: 0 done, 1 failed or a check did not hold, 2 bad option or configuration, 3 address in use, 4 storage "
        "unusable, 5 service unavailable, 6 tracker not open or of another owner, 7 damaged or missing data, 8 credential or "
        "permission refused."
    ),
    commands={
        "serve": "delayed_tracker.cli.service.serve:serve",
        "replay": "delayed_tracker.cli.tracker.replay:replay",
        "demo": "delayed_tracker.cli.demo.command:demo",
        "trackers": "delayed_tracker.cli.tracker.trackers:trackers",
        "open": "delayed_tracker.cli.tracker.open_tracker:open_tracker",
        "add": "delayed_tracker.cli.tracker.add:add",
        "poll": "delayed_tracker.cli.tracker.poll:poll",
        "cancel": "delayed_tracker.cli.tracker.cancel:cancel",
        "reschedule": "delayed_tracker.cli.tracker.reschedule:reschedule",
        "seal": "delayed_tracker.cli.tracker.seal:seal",
        "delete": "delayed_tracker.cli.tracker.delete:delete",
        "top": "delayed_tracker.cli.top.command:top",
        "stats": "delayed_tracker.cli.tracker.stats:stats",
        "buckets": "delayed_tracker.cli.tracker.buckets:buckets",
        "peek": "delayed_tracker.cli.tracker.peek:peek",
        "explain": "delayed_tracker.cli.tracker.explain:explain",
        "histogram": "delayed_tracker.cli.tracker.histogram:histogram",
        "verify": "delayed_tracker.cli.tracker.verify:verify",
        "config": "delayed_tracker.cli.service.config:config",
        "backup": "delayed_tracker.cli.storage.backup:backup",
        "restore": "delayed_tracker.cli.storage.restore:restore",
        "compact": "delayed_tracker.cli.storage.compact:compact",
        "assets": "delayed_tracker.cli.service.assets:assets",
        "warm": "delayed_tracker.cli.service.warm:warm",
    },
    groups={
        "topics": "delayed_tracker.cli.topics.commands:app",
        "ledgers": "delayed_tracker.cli.ledgers.commands:app",
        "storage": "delayed_tracker.cli.storage.commands:app",
        "pulsar": "delayed_tracker.cli.pulsar.commands:app",
    },
)


def run() -> None:
    """Run the installed command."""
    PROGRAM.run()
