"""Names the directory that keeps what Spark needs at each start."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return ``delayed-tracker`` under the user's cache directory; it need not exist.

    numba's ``user_cache_dir`` returns the same, but its import takes 0.4 s, and Java should have been started before.
    """
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "delayed-tracker"
    chosen = environment.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "delayed-tracker"
