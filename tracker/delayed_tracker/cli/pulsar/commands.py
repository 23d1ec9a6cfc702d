"""Subcommands of ``delayed-tracker pulsar``."""

import typer

app = typer.Typer(help="Inspect, adopt, publish and repair the buckets of a live Pulsar cluster.")


@app.callback()
def group() -> None:
    """Inspect, adopt, publish and repair the buckets of a live Pulsar cluster."""
