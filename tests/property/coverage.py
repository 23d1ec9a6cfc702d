"""Rare paths, and the share of examples that must take them, so that a strategy keeps reaching them."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

ENOUGH_EXAMPLES: Final = 2_000
"""From here on the shares are those of the strategy. Examples resemble those before them: of 200, half or twice as many
take a path as of 20,000.
"""
COMMON_SHARE: Final = 0.3
"""A path with this share is taken by some of any few dozen examples, however similar they are."""


class Coverage:
    """Counter of the examples in which each path was taken."""

    def __init__(self, required_shares: Mapping[str, float]) -> None:
        self.required_shares = required_shares
        self.examples = 0
        self.taken: Counter[str] = Counter()

    def note(self, hits: Mapping[str, int]) -> None:
        """Count one example; ``hits`` is how often it took each path."""
        self.examples += 1
        self.taken.update({path for path, count in hits.items() if count})

    def require(self) -> None:
        """Fail with the paths that too few examples took; with few examples, with the common paths that none took."""
        timid = {
            path: self.taken[path] / self.examples
            for path, share in self.required_shares.items()
            if (
                self.taken[path] < share * self.examples
                if self.examples >= ENOUGH_EXAMPLES
                else share >= COMMON_SHARE and not self.taken[path]
            )
        }
        assert not timid, f"of {self.examples} examples too few took these paths: {timid}"
