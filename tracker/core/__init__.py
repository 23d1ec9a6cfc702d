"""The pure core: synchronous, deterministic, columnar. Time is an argument; effects are values.

Modules are imported by name (``tracker.core.columns``, ``tracker.core.core``, ...). Nothing is re-exported here, so that
``tracker.core.errors`` can be used by the dispatcher's client without numpy.
"""
