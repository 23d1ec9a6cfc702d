"""Plans made on the driver: topics, subscriptions, buckets, parts.

Takes counts, gives frozen plans; nothing here runs Spark.
Open ``bucket_plan.py`` first.
"""
