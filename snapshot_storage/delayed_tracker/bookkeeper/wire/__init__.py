"""Version 3 of the bookies' protocol: frames, requests, replies, digests, and the connection that carries them.

Takes entries and ids, gives the replies of one bookie, or an error for each request.
Open ``connection.py`` first, then ``channel.py``.
"""
