"""Verb results of the core as plain values, so that two cores can be compared."""

import dataclasses

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns


def plain(answer):
    """Convert columns to lists and results to dicts; return other values as they are."""
    if dataclasses.is_dataclass(answer) and not isinstance(answer, IndexColumns):
        return {field.name: plain(getattr(answer, field.name)) for field in dataclasses.fields(answer)}
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    return list(answer) if isinstance(answer, IndexColumns) else answer
