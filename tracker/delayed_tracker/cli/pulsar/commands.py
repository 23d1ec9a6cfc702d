"""Subcommands of ``delayed-tracker pulsar``."""

import typer

from delayed_tracker.cli.pulsar import adopt, inspect, publish, repair, restore

app = typer.Typer(help="Inspect, adopt, publish and repair the buckets of a live Pulsar cluster.")


@app.callback()
def group() -> None:
    """Inspect, adopt, publish and repair the buckets of a live Pulsar cluster."""


app.command("inspect")(inspect.inspect)
app.command("adopt")(adopt.adopt)
app.command("publish")(publish.publish_command)
app.command("repair")(repair.repair_command)
app.command("restore")(restore.restore_command)
