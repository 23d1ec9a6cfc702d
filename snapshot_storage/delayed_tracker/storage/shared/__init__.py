"""Catalogues of storages that several processes share: one document for each tracker, replaced as a whole.

Takes a store of documents with compare-and-swap and a store of blobs, gives the catalogue of the storage protocol.
Open ``catalogue.py`` first, then ``document.py``.
"""
