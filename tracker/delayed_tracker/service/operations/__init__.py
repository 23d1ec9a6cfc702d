"""Operations on one whole tracker, loaded or not: clearing, deletion, a move of its cursor, an import.

Takes the registry and a key, returns the answer. The last step of each continues if its caller goes away.
Open ``clearing.py`` first.
"""
