"""Settings: keys, defaults, ranges, and the places that values come from.

Takes files, the environment and the command line, gives one frozen value.
Open ``settings.py`` first.
"""
