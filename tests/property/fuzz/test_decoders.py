"""Every decoder of bytes that others write decodes them or refuses them with an error that it declares."""

import re
import tracemalloc

import pytest

from tests.property.fuzz import read, received, stored
from tests.property.fuzz.decoder import CORPUS, Decoder, Undeclared
from tests.property.fuzz.mutator import SIZE_MAX, Mutator
from tests.repository import documents

DECODERS = (*stored.DECODERS, *read.DECODERS, *received.DECODERS)
QUICK_INPUTS = 2_000
"""Inputs for each decoder in `make test`: a quarter of a second."""
DEEP_INPUTS = 10_000_000
DEEP_PARTS = 10
"""Parts of the deep run of each decoder, for several processes."""
PEAK_BYTES_MAX = 16 * 2**20
"""Memory for one input of at most 4 KiB: decompressed data has a megabyte here."""

every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name.replace(" ", "-"))


@every_decoder
def test_real_inputs_are_accepted(decoder: Decoder):
    """The mutations begin at bytes that are right, so that they get behind the first check."""
    made = decoder.make()
    assert made
    accepted = [decoder.check(octets) for octets in made]
    assert sum(accepted) * 2 >= len(made)


@every_decoder
def test_inputs_of_the_corpus_lead_to_declared_errors(decoder: Decoder):
    """An input that once was decoded wrongly is not again."""
    for path in decoder.kept():
        decoder.check(path.read_bytes())


@pytest.mark.slow
@every_decoder
def test_mutated_inputs_lead_to_declared_errors(decoder: Decoder):
    """The same few thousand in each run."""
    accepted = decoder.fuzz(QUICK_INPUTS, seed=1)
    assert accepted < QUICK_INPUTS or not decoder.declared


@pytest.mark.slow
@every_decoder
def test_no_input_takes_much_memory(decoder: Decoder):
    """A length that an input claims allocates nothing."""
    decoder.fuzz(20, seed=2)
    tracemalloc.start()
    try:
        decoder.fuzz(300, seed=3)
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.deep
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(DEEP_PARTS))
@every_decoder
def test_ten_million_mutated_inputs_lead_to_declared_errors(decoder: Decoder, part: int):
    """An input that fails belongs in the corpus: the message has it."""
    decoder.fuzz(DEEP_INPUTS // DEEP_PARTS, seed=1_000 + part)


def test_an_undeclared_error_is_reported_with_its_input():
    """The check can fail, and says what to keep."""
    broken = Decoder("broken", lambda octets: octets[1], (ValueError,), lambda: [b"ab"])
    with pytest.raises(
        Undeclared, match=re.escape("broken raised IndexError('index out of range') for bytes.fromhex('61')")
    ):
        broken.check(b"a")


def test_a_seed_gives_the_same_inputs_and_keeps_to_the_bound():
    """A failure can be repeated, and no input grows without end."""
    first, again, other = (Mutator([bytes(SIZE_MAX), b"abc"], seed) for seed in (1, 1, 2))
    made = [first.next() for _ in range(500)]
    assert made == [again.next() for _ in range(500)]
    assert made != [other.next() for _ in range(500)]
    assert max(map(len, made)) == SIZE_MAX
    assert len(set(made)) > 300


def test_folders_of_the_corpus_are_named_after_decoders():
    assert {path.name for path in CORPUS.glob("*")} <= {decoder.name for decoder in DECODERS}


def test_the_threat_model_lists_every_decoder():
    """docs/deployment/security.md has a row for each, with its bound and its errors."""
    listed = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| `[^|]+` \|$", documents.read("docs/deployment/security.md"), re.MULTILINE
    )
    assert sorted(listed) == sorted(decoder.name for decoder in DECODERS)
