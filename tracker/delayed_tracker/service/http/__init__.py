"""The HTTP interface: health, metrics, and the admin call that brokers answer over HTTP.

Takes requests without a body, gives text or JSON.
Open ``application.py`` first.
"""
