"""``spark-rebuild``: the command line of the Spark job."""
