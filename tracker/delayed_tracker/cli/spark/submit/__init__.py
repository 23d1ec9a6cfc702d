"""A directory of its own for the file that spark-submit is given: Spark imports from beside it before all else."""
