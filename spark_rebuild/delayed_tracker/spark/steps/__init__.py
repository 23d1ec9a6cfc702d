"""Steps of jobs as Spark runs them: read, count, sort, cut, encode, compare.

Takes data frames and plans, gives data frames and staged parts.
Open ``reading.py`` first.
"""
