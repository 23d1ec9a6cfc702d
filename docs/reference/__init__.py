"""Reference pages that are written from code: ``python -m docs.reference.regenerate``."""
