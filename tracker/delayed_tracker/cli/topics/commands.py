"""Subcommands of ``delayed-tracker topics``."""

import typer

from delayed_tracker.cli.topics import compact, entries, last_message, list_topics, message, message_index, seek, stats

app = typer.Typer(
    help="Look into the topics that bookies' disks, tiered storage or local ledgers hold, without a broker."
)
app.command("list")(list_topics.list_topics)
app.command("stats")(stats.stats)
app.command("entries")(entries.entries)
app.command("message")(message.message)
app.command("get-message-id-by-index")(message_index.get_message_id_by_index)
app.command("seek-by-time")(seek.seek_by_time)
app.command("last-message-id")(last_message.last_message_id)
app.command("compact")(compact.compact)
