"""Steps of jobs that Spark runs: read, count, sort, cut, encode, compare.

Takes data frames and plans, gives data frames and staged parts.
Open ``reading.py`` first.
"""
