"""A decoder of bytes that others wrote, and the check that it decodes or refuses whatever it gets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.property.fuzz.mutator import Mutator

CORPUS: Final = Path(__file__).resolve().parent / "corpus"
"""Inputs that once were decoded wrongly, in a folder for each decoder. They stay for good."""


class Undeclared(AssertionError):
    """An input led to an error that the decoder does not declare."""


@dataclass(frozen=True)
class Decoder:
    """One decoder.

    Args:
        name: of its row in docs/deployment/security.md, and of its folder in the corpus.
        decode: decodes the whole input.
        declared: errors with which it may refuse one.
        make: makes real inputs.
        reseal: puts valid checksums into a mutated input, so that mutations get behind them.
    """

    name: str
    decode: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    make: Callable[[], Sequence[bytes]] = field(repr=False)
    reseal: Callable[[bytes], bytes] = field(default=bytes, repr=False)

    @cached_property
    def inputs(self) -> list[bytes]:
        """Real inputs, and those of the corpus."""
        return [*self.make(), *(path.read_bytes() for path in self.kept())]

    def kept(self) -> list[Path]:
        """Return the files of the corpus, in order."""
        return sorted((CORPUS / self.name).glob("*"))

    def check(self, octets: bytes) -> bool:
        """Decode an input. Returns False if it is refused.

        Raises:
            Undeclared: with the input in hexadecimal digits, to be kept in the corpus.
        """
        try:
            self.decode(octets)
        except self.declared:
            return False
        except Exception as error:
            raise Undeclared(f"{self.name} raised {error!r} for bytes.fromhex({octets.hex()!r})") from error
        return True

    def fuzz(self, count: int, seed: int) -> int:
        """Check mutated inputs; return how many were accepted."""
        mutator, reseal, check = Mutator(self.inputs, seed), self.reseal, self.check
        return sum(check(reseal(mutator.next())) for _ in range(count))
