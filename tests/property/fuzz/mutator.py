"""Makes damaged and hostile inputs out of real ones, the same ones for the same seed."""

import random
import struct
from collections.abc import Sequence
from typing import Final

SIZE_MAX: Final = 4_096
"""An input that grows beyond this is cut."""
_NUMBERS: Final = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
_PIECES: Final = tuple(
    {struct.pack(form, number) for number in _NUMBERS for form in ("<Q", ">Q")}
    | {struct.pack(form, number) for number in _NUMBERS if number < 2**32 for form in ("<I", ">I")}
    | {
        b"\xff" * 9 + b"\x01",
        b"\x80" * 10,
        b"\x0a\x80\x80\x80\x80\x08",
        b"\0",
        b"\n",
        b"\\u",
        b'{"',
        b"\xed\xa0\x80",
        b"../",
    }
)
"""Sizes at which fields overflow, in both byte orders, and pieces of protobuf, JSON and text."""


class Mutator:
    """Source of inputs.

    Args:
        inputs: real bytes, at least one.
        seed: chooses the sequence.
    """

    def __init__(self, inputs: Sequence[bytes], seed: int) -> None:
        self._inputs = inputs
        self._random = random.Random(seed)  # a sequence to repeat, nothing to keep secret

    def next(self) -> bytes:
        """Return one input: a real one with one to four changes, seldom none of it."""
        pick, count = self._random.random, len(self._inputs)
        octets = bytearray(self._inputs[int(pick() * count)])
        for _ in range(1 + int(pick() * pick() * 4)):
            self._change(octets)
        return bytes(octets[:SIZE_MAX])

    def _change(self, octets: bytearray) -> None:
        pick = self._random.random
        size = len(octets)
        place = int(pick() * size)
        match int(pick() * 8):
            case 0 if size:
                octets[place] ^= 1 << int(pick() * 8)
            case 1 if size:
                octets[place] = int(pick() * 256)
            case 2:
                piece = _PIECES[int(pick() * len(_PIECES))]
                octets[place : place + len(piece)] = piece
            case 3:
                octets[place:place] = _PIECES[int(pick() * len(_PIECES))]
            case 4:
                del octets[place:]
            case 5:
                del octets[place : place + 1 + int(pick() * 16)]
            case 6:
                octets[place:place] = octets[place : place + 1 + int(pick() * 64)]
            case _:
                other = self._inputs[int(pick() * len(self._inputs))]
                start = int(pick() * len(other))
                octets[place:] = other[start:]
