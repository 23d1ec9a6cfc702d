"""Commands of ``delayed-tracker`` that run or prepare a service.

Open ``serve.py`` first.
"""
