"""Fixtures for commits into object stores."""

from tests.snapshot_storage.shared.clouds.conftest import credentials, place, s3

__all__ = ["credentials", "place", "s3"]
