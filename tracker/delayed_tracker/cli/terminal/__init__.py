"""Options, output, progress and failures, the same for every command.

Takes answers and errors, gives tables, JSON, one line on stderr and an exit status.
Open ``running.py`` first.
"""
