"""Compiled kernels of the core, and the rules for compiling all kernels.

Takes numpy arrays, returns numpy arrays. Open ``jit.py`` first, then ``compiled.py``.
"""
