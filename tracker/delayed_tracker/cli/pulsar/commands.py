"""Subcommands of ``delayed-tracker pulsar``."""

import typer

from delayed_tracker.cli.pulsar import adopt, gc, inspect, publish, repair, restore

app = typer.Typer(
    help="Inspect, adopt, publish and repair buckets of a live Pulsar cluster; delete trackers of what is gone."
)


@app.callback()
def group() -> None:
    """Inspect, adopt, publish and repair buckets of a live Pulsar cluster; delete trackers of what is gone."""


app.command("inspect")(inspect.inspect)
app.command("adopt")(adopt.adopt)
app.command("publish")(publish.publish_command)
app.command("repair")(repair.repair_command)
app.command("restore")(restore.restore_command)
app.command("gc")(gc.gc_command)
