"""Client for asyncio: channel, calls, sessions.

Takes calls of a dispatcher, performs the exchanges of ``rules``, gives frozen values or raises the errors of the
client.
Open ``client.py`` first, then ``session.py``.
"""
