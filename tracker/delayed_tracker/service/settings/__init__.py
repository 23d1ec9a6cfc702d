"""Settings: keys, defaults, ranges, and the sources of values.

Takes files, the environment and the command line, gives one frozen value.
Open ``settings.py`` first.
"""
