"""Operations on one whole tracker, loaded or not: clearing, deletion, a move of its cursor, an import.

Each of them lets no other one come between, and goes on if its caller goes away. Open ``clearing.py`` first.
"""
