"""Buckets of a live Pulsar cluster: what its subscriptions have in ZooKeeper and on bookies, and changes to it.

Takes addresses of a cluster, gives findings, and makes each change in one conditional step.
Open ``listing.py`` first.
"""
