"""The ``delayed-tracker`` command: one module for each subcommand, on top of client, ledger and service."""
