"""Settings of authentication and authorization, by Pulsar's names. Listening with TLS has its settings elsewhere."""

from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.keys import Group, Section, setting

_PULSAR_PROVIDERS: Final = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
_PULSAR_CLASSES: Final = "org.apache.pulsar."
PROVIDERS: Final = {
    "token": "token",
    "tls": "tls",
    f"{_PULSAR_PROVIDERS}Token": "token",
    f"{_PULSAR_PROVIDERS}Tls": "tls",
}
"""Accepted names of providers, each with the provider that it stands for."""
PUBLIC_ALGORITHMS: Final = tuple(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512))
_DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, kw_only=True)
class SecuritySettings(Section):
    """Settings of who may call the service, and what and how much each may do."""

    authentication_enabled: bool = setting(
        False,
        "authenticationEnabled",
        Group.SECURITY,
        "Refuse calls without a valid credential; only /health/live, /health/ready and grpc.health.v1 answer everybody.",
    )
    authentication_providers: str = setting(
        "",
        "authenticationProviders",
        Group.SECURITY,
        "Kinds of credentials, divided by commas: token (JSON web tokens) and tls (the CN of a client certificate), or "
        "Pulsar's class names of these. A call with a token is judged by its token; the certificate counts without one.",
    )
    anonymous_user_role: str = setting(
        "",
        "anonymousUserRole",
        Group.SECURITY,
        "Role of callers that send no credential; empty refuses them. A bad credential is refused in any case.",
    )
    token_secret_key: str = setting(
        "",
        "tokenSecretKey",
        Group.SECURITY,
        "Secret keys of tokens (HS256, HS384, HS512), divided by spaces; a token signed with any of them is valid. Each is "
        "file://PATH with the raw bytes, or data:;base64,BYTES. Give files: this value is not shown by `config`, but the "
        "environment and files of settings are read by more people.",
        secret=True,
    )
    token_public_key: str = setting(
        "",
        "tokenPublicKey",
        Group.SECURITY,
        "Public keys of tokens, divided by spaces; a token signed with any of them is valid. Each is file://PATH (DER, or "
        "PEM with one or several keys), data:;base64,BYTES, or PEM.",
    )
    token_public_alg: str = setting(
        "RS256",
        "tokenPublicAlg",
        Group.SECURITY,
        "The only algorithm of tokens signed for tokenPublicKey.",
        choices={name: name for name in PUBLIC_ALGORITHMS} | {"": "RS256"},
    )
    token_auth_claim: str = setting(
        "",
        "tokenAuthClaim",
        Group.SECURITY,
        "Claim of a token that is the role; empty: sub. Of a list, the first element is the role.",
    )
    token_audience_claim: str = setting(
        "",
        "tokenAudienceClaim",
        Group.SECURITY,
        "Claim of a token that names its audience, mostly aud; empty: not checked.",
    )
    token_audience: str = setting(
        "",
        "tokenAudience",
        Group.SECURITY,
        "Audience of this service, which the claim tokenAudienceClaim must be or contain.",
    )
    token_allowed_clock_skew_seconds: int = setting(
        0,
        "tokenAllowedClockSkewSeconds",
        Group.SECURITY,
        "A token is valid for so long before it begins and after it ends.",
        unit="s",
        maximum=_DAY_SECONDS,
    )
    authorization_enabled: bool = setting(
        False,
        "authorizationEnabled",
        Group.SECURITY,
        "Let a principal take only the actions that rules grant it. Needs authenticationEnabled. Otherwise every principal "
        "may do everything.",
    )
    authorization_provider: str = setting(
        "rules",
        "authorizationProvider",
        Group.SECURITY,
        "What grants actions: rules, the file authorizationRulesFilePath, or another entry point of the group "
        "delayed_tracker.authorization. A class of Pulsar is refused if authorizationEnabled is true, and not used otherwise.",
    )
    authorization_rules_file_path: str = setting(
        "",
        "authorizationRulesFilePath",
        Group.SECURITY,
        "File of rules in JSON; it is read again when it changes. Empty: only superUserRoles may do anything.",
    )
    super_user_roles: str = setting(
        "",
        "superUserRoles",
        Group.SECURITY,
        "Roles that may take every action, divided by commas.",
    )

    quotas_file_path: str = setting(
        "",
        "quotasFilePath",
        Group.SECURITY,
        "File of quotas of principals in JSON; it is read again when it changes. Needs authenticationEnabled. Empty: no quotas.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.provider_names:
            if name not in PROVIDERS:
                raise InvalidInput("authenticationProviders", name, f"give names out of {', '.join(PROVIDERS)}")
        if self.authentication_enabled and not self.providers:
            raise InvalidInput("authenticationProviders", "", "name one: token, tls, or token,tls")
        has_keys = bool(self.token_secret_key or self.token_public_key)
        if self.authentication_enabled and "token" in self.providers and not has_keys:
            raise InvalidInput("authenticationProviders", "token", "set tokenSecretKey or tokenPublicKey, too")
        if self.authorization_enabled and not self.authentication_enabled:
            raise InvalidInput("authorizationEnabled", True, "set authenticationEnabled=true, too")
        if self.authorization_enabled and self.authorization_provider.startswith(_PULSAR_CLASSES):
            raise InvalidInput(
                "authorizationProvider",
                self.authorization_provider,
                "set it to rules, and authorizationRulesFilePath to a file of rules: classes of Pulsar do not run here",
            )
        if self.quotas_file_path and not self.authentication_enabled:
            raise InvalidInput("quotasFilePath", self.quotas_file_path, "set authenticationEnabled=true, too")
        if bool(self.token_audience) != bool(self.token_audience_claim):
            unset = "tokenAudience" if self.token_audience_claim else "tokenAudienceClaim"
            raise InvalidInput(unset, "", "set both tokenAudience and tokenAudienceClaim, or none of them")
        if self.anonymous_user_role in self.super_users:
            raise InvalidInput("superUserRoles", self.anonymous_user_role, "leave out the role of anonymous callers")

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Names of the providers as they are given."""
        return _listed(self.authentication_providers)

    @property
    def providers(self) -> frozenset[str]:
        """The providers: ``token``, ``tls``, or both."""
        return frozenset(PROVIDERS[name] for name in self.provider_names)

    @property
    def super_users(self) -> frozenset[str]:
        """Roles that may take every action."""
        return frozenset(_listed(self.super_user_roles))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for each in text.split(",") if (part := each.strip()))
