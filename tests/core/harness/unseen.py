"""Verification that leaves a tracker as it is."""

import pickle

from delayed_tracker.core.core import TrackerCore


def check_unseen(core: TrackerCore) -> None:
    """Check a tracker without clearing bits that wait for it, so that later steps meet them.

    ``TrackerCore.check`` clears them, as every reading verb does.
    """
    # A pickle makes a copy in less time than ``copy.deepcopy``.
    (pickle.loads(pickle.dumps(core)) if core._state.defers else core).check()
