"""Keys of tokens: every form that Pulsar's settings have, several at once, and refusals that do not show a key."""

import base64

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security.token_keys import KEY_FILE_BYTES_MAX, KEYS_MAX, load_token_keys, token_key_files
from tests.service.security.tokens import (
    OTHER_SECRET,
    SECRET,
    data_url,
    der,
    ec_key,
    file_url,
    pem,
    rsa_key,
    security,
)


def test_secret_keys_of_files_and_data_urls(tmp_path):
    """Several keys are divided by spaces, and each serves the algorithms for which it is long enough."""
    given = f"{file_url(tmp_path / 'a key'.replace(' ', '%20'), SECRET)} {data_url(OTHER_SECRET * 2)}"
    (tmp_path / "a key").write_bytes(SECRET)
    keys = load_token_keys(security(token_secret_key=given)).by_algorithm
    assert keys == {"HS256": (SECRET, OTHER_SECRET * 2), "HS384": (OTHER_SECRET * 2,), "HS512": (OTHER_SECRET * 2,)}


@pytest.mark.parametrize("slashes", ["", "//", "//localhost"])
def test_file_urls_as_java_writes_them(tmp_path, slashes):
    """A file has one slash, three, or a host that is this one."""
    (tmp_path / "key").write_bytes(SECRET)
    given = security(token_secret_key=f"file:{slashes}{tmp_path}/key")
    assert load_token_keys(given).by_algorithm["HS256"] == (SECRET,)
    assert token_key_files(given) == (tmp_path / "key",)


def test_public_keys_as_der_pem_and_inline(tmp_path):
    """A PEM file may have several keys; PEM may stand in the setting itself."""
    both = file_url(tmp_path / "both.pem", pem(rsa_key()) + b"\n# next\n" + pem(rsa_key(1)))
    raw = file_url(tmp_path / "raw.der", der(rsa_key()))
    keys = load_token_keys(security(token_secret_key="", token_public_key=f"{both} {raw} {data_url(der(rsa_key()))}"))
    assert len(keys.by_algorithm["RS256"]) == 4
    assert list(keys.by_algorithm) == ["RS256"]
    inline = load_token_keys(security(token_public_key=pem(ec_key()).decode(), token_public_alg="ES256"))
    assert len(inline.by_algorithm["ES256"]) == 1


@pytest.mark.parametrize(
    ("key", "content", "remedy"),
    [
        ("token_secret_key", SECRET[:31], "at least 32 bytes"),
        ("token_secret_key", pem(rsa_key()), "PEM"),
        ("token_secret_key", der(rsa_key()), "anybody could sign"),
        ("token_public_key", SECRET, "DER or PEM"),
        ("token_public_key", pem(ec_key()), "tokenPublicAlg=RS256"),
        ("token_public_key", pem(rsa_key()).replace(b"M", b"!"), "DER or PEM"),
    ],
)
def test_unusable_keys(key, content, remedy):
    """A key of the wrong kind is refused at the start, and the error does not show it."""
    with pytest.raises(InvalidInput, match=remedy) as refused:
        load_token_keys(security(**{key: data_url(content)}))
    assert base64.b64encode(content).decode()[:20] not in str(refused.value)


def test_files_that_cannot_be_read(tmp_path):
    """The error names the file: one that is missing, or one without an end."""
    with pytest.raises(InvalidInput, match="No such file"):
        load_token_keys(security(token_secret_key=f"file://{tmp_path}/none"))
    large = file_url(tmp_path / "large", bytes(KEY_FILE_BYTES_MAX + 1))
    with pytest.raises(InvalidInput, match=f"more than {KEY_FILE_BYTES_MAX} bytes"):
        load_token_keys(security(token_secret_key=large))


def test_values_that_are_no_key():
    """Text that is neither a URL nor PEM is not repeated: it may be the key."""
    for text in ("hunter2", "data:;base64,!!!", "data:text"):
        with pytest.raises(InvalidInput) as refused:
            load_token_keys(security(token_secret_key=text))
        assert text not in str(refused.value)


def test_too_many_keys():
    """Each bad token would be tried against all of them."""
    with pytest.raises(InvalidInput, match=f"at most {KEYS_MAX}"):
        load_token_keys(security(token_secret_key=" ".join([data_url(SECRET)] * (KEYS_MAX + 1))))


def test_a_representation_shows_no_key():
    """A log that shows keys shows only their number."""
    assert repr(load_token_keys(security())) == "TokenKeys(HS256: 1)"
