"""Authentication, authorization and the audit log.

Verifies credentials, and decides which actions a principal may take on which topic.
Open ``guard.py`` first.
"""
