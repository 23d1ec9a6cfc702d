"""Compiled kernels of the core, and the rules by which all kernels are compiled.

Takes numpy arrays, gives numpy arrays.
Open ``jit.py`` first, then ``compiled.py``.
"""
