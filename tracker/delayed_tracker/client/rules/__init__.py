"""Exchanges of each verb: the messages that it sends and the meaning of the answers. Makes no calls.

Takes arguments, yields calls, is sent answers, returns frozen values.
Open ``session.py`` first.
"""
