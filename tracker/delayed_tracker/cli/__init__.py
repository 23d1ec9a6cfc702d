"""The ``delayed-tracker`` command: one module for each subcommand, on top of client, ledger and service.

Takes a command line, gives a table or JSON on stdout, progress and errors on stderr, and an exit status.
Open ``main.py`` first; it names the module of each command.
"""
