"""Command line ``spark-rebuild`` of the Spark job."""
