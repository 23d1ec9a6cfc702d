"""Directory of the script for spark-submit alone, because Spark puts it first on the import path."""
