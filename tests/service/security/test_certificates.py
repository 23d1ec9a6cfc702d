"""The certificates of the tests are what they claim to be, to the TLS library that the service uses."""

import ssl

import pytest

from tests.service.security.certificates import Authority, Certificate


def _handshake(tmp_path, server: Certificate, trusted: bytes) -> str:
    (tmp_path / "certificate.pem").write_bytes(server.certificate)
    (tmp_path / "key.pem").write_bytes(server.key)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    theirs = ssl.create_default_context(cadata=trusted.decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(down, up, server_hostname="localhost")
    service = ours.wrap_bio(up, down, server_side=True)
    for side in (client, service, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return dict(pair for (pair,) in client.getpeercert()["subject"])["commonName"]


def test_an_issued_certificate_is_trusted_under_its_name(tmp_path):
    """A client that trusts the authority completes the handshake and sees the common name."""
    authority = Authority()
    assert _handshake(tmp_path, authority.issue("broker"), authority.certificate) == "broker"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("issue", "unable to get|signature"), ("expired", "expired"), ("not_yet_valid", "not yet valid")],
)
def test_a_wrong_certificate_is_refused_for_its_own_reason(tmp_path, kind, problem):
    """Another authority's, an ended and a future certificate each fail as what they are."""
    authority = Authority()
    trusted = Authority().certificate if kind == "issue" else authority.certificate
    with pytest.raises(ssl.SSLCertVerificationError, match=problem):
        _handshake(tmp_path, getattr(authority, kind)("broker"), trusted)
