"""Says which messages each verb sends and what the answers mean, without performing a call.

Takes arguments, yields calls, is sent answers, returns frozen values.
Open ``session.py`` first.
"""
