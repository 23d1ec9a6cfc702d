"""Settings of TLS on the listening addresses, by Pulsar's names."""

from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.address import ListenAddress, Transport
from delayed_tracker.service.settings.keys import Group, Section, setting


@dataclass(frozen=True, kw_only=True)
class TlsSettings(Section):
    """Files of TLS. They are read again when they change; broken ones leave the old certificate in force."""

    certificate_file_path: str = setting(
        "",
        "tlsCertificateFilePath",
        Group.SECURITY,
        "Certificate of the service, with those between it and its authority, as PEM, for addresses with tls:// or mtls://.",
    )
    key_file_path: str = setting(
        "",
        "tlsKeyFilePath",
        Group.SECURITY,
        "Private key of the certificate, as PEM, without a password.",
    )
    trust_certs_file_path: str = setting(
        "",
        "tlsTrustCertsFilePath",
        Group.SECURITY,
        "Certificates of the authorities that sign clients, as PEM, for addresses with mtls://.",
    )
    refresh_seconds: int = setting(
        300,
        "tlsCertRefreshCheckDurationSec",
        Group.SECURITY,
        "The files are looked at this often. A changed certificate is for new connections.",
        unit="s",
        minimum=1,
        maximum=86_400,
    )

    def require_for(self, key: str, address: ListenAddress) -> None:
        """Refuse an address whose files are not given.

        Raises:
            InvalidInput: with the setting that lacks its value.
        """
        needed = {
            Transport.PLAIN: {},
            Transport.TLS: {"tlsCertificateFilePath": self.certificate_file_path, "tlsKeyFilePath": self.key_file_path},
        }
        needed[Transport.MTLS] = {**needed[Transport.TLS], "tlsTrustCertsFilePath": self.trust_certs_file_path}
        for file_key, path in needed[address.transport].items():
            if not path:
                raise InvalidInput(file_key, "", f"{key}={address} needs this file: name a PEM file")
