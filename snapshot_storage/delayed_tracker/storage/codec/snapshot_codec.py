"""Names of the codecs, for settings: imports nothing, so that reading settings loads no kernels."""

from enum import StrEnum
from typing import Final

_COLUMNAR_ROWS_MIN: Final = 96
"""The header and the bounds of a columnar segment of so many rows take 0.3 bytes a row, of one of 64 rows 0.4."""


class SnapshotCodec(StrEnum):
    """Name of a codec."""

    PULSAR = "pulsar"
    """PIP-195's protobuf, byte for byte as Pulsar writes it (``pulsar.py``)."""
    COLUMNAR = "columnar"
    """Bit-packed columns, in a fifth of the bytes; Pulsar cannot read them (``columnar.py``)."""

    @property
    def segment_rows_min(self) -> int:
        """Rows up to which segments are joined (``join_segments``); 1 if each is stored as it is cut."""
        return _COLUMNAR_ROWS_MIN if self is SnapshotCodec.COLUMNAR else 1
