"""Steps of jobs, which Spark runs in tasks: read, count, sort, cut, encode, compare.

Takes data frames and plans, gives data frames; jobs run them and bring results to the driver.
Open ``read_step.py`` first.
"""
