"""What a file says of an identity provider: where it is, what we are called there, and which role its people have.

    issuer: https://id.example.org/realms/network
    client_id: kinband
    client_secret_file: /etc/kinband/oidc-secret    # leave it out for a public client
    url: https://kinband.example.org                # where browsers find the service
    roles:
      claim: groups                                 # a claim, or a path such as realm_access.roles
      values: {network-admins: admin, noc: operator, staff: viewer}

Whoever has several of the values has the highest of their roles; whoever has none is refused. Further keys: `name`, the
claim with what people are called (`name`); `scopes` (`openid profile email`); `audience`, of the access tokens that
programs may come with (none are taken without it); `label`, what the button says; `ca_file`, with the certificates that
the provider's own is checked by.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kinband.errors import BadInputError, KinbandError
from kinband.service.access.tokens import Role


class ProviderAwayError(KinbandError, ConnectionError):
    """The provider does not answer, or not as one; the same may work later.

    Example:
        >>> str(ProviderAwayError())
        'the identity provider cannot be reached: try again later, or sign in with a token'
    """

    code = "provider_away"

    def __init__(self) -> None:
        super().__init__("the identity provider cannot be reached: try again later, or sign in with a token")


Word = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[!-~]+$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Roles(_Strict):
    claim: Word
    values: Annotated[dict[Annotated[str, StringConstraints(min_length=1)], str], Field(min_length=1)]


class _File(_Strict):
    issuer: Word
    client_id: Word
    client_secret_file: str | None = None
    url: Word
    roles: _Roles
    name: Word = "name"
    scopes: Annotated[list[Word], Field(min_length=1)] = ["openid", "profile", "email"]
    audience: Word | None = None
    label: Line = "Sign in with your organisation"
    ca_file: str | None = None


@dataclass(frozen=True)
class ProviderSettings:
    """What is known of a provider; see the module for the fields."""

    issuer: str
    client_id: str
    url: str
    claim: str
    roles: Mapping[str, Role]
    secret: str | None = field(default=None, repr=False)
    name: str = "name"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    audience: str | None = None
    label: str = "Sign in with your organisation"
    ca_file: Path | None = None

    @property
    def local(self) -> bool:
        """Whether the provider is on this machine, so that it may do without https."""
        return urlsplit(self.issuer).hostname in ("localhost", "127.0.0.1", "::1")

    def role_in(self, claims: Mapping[str, Any]) -> Role | None:
        """Return the highest role of somebody with these claims; None where nothing gives one."""
        found = _at(claims, self.claim)
        given = found if isinstance(found, list) else [found]
        return max(
            (self.roles[value] for value in given if isinstance(value, str) and value in self.roles), default=None
        )

    def name_in(self, claims: Mapping[str, Any]) -> str:
        """Return what somebody with these claims is called, as one printable line; the subject where nothing tells."""
        for claim in (self.name, "preferred_username", "email"):
            found = _at(claims, claim)
            shown = (
                "".join(one for one in found if one.isprintable() or one.isspace()) if isinstance(found, str) else ""
            )
            if line := " ".join(shown.split())[:60].strip():
                return line
        return str(claims.get("sub", ""))[:60]


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its whole name, or by a path of names with dots between them."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def read_provider(file: Path) -> ProviderSettings:
    """Return what a file says of a provider, or refuse it in one sentence."""
    try:
        said = _File.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInputError(f"{file} cannot be read ({error.strerror}): check --oidc") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise BadInputError(f"{file} is no YAML{where}: see docs/deploy.md for what is in it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BadInputError(f"{file}: {where}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error
    settings = ProviderSettings(
        said.issuer, said.client_id, said.url.rstrip("/"), said.roles.claim,
        {value: Role.of(role) for value, role in said.roles.values.items()}, _secret(said.client_secret_file),
        said.name, tuple(said.scopes), said.audience, said.label, None if said.ca_file is None else Path(said.ca_file),
    )  # fmt: skip
    _check(settings, file)
    return settings


def _secret(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadInputError(f"client_secret_file {file:.200} cannot be read: check the file") from error
    if not found or not found.isprintable():
        raise BadInputError(f"client_secret_file {file:.200} has to hold one line, the secret of the client")
    return found


def _check(settings: ProviderSettings, file: Path) -> None:
    for key, address in (("issuer", settings.issuer), ("url", settings.url)):
        parts = urlsplit(address)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or parts.scheme not in (("http", "https") if local else ("https",)):
            raise BadInputError(f"{file}: {key} must be an https address, got {address!r:.90}")
        if parts.query or parts.fragment or parts.username:
            raise BadInputError(f"{file}: {key} must be an address without ?, # and @, got {address!r:.90}")
    if urlsplit(settings.url).path:
        raise BadInputError(
            f"{file}: url is a scheme and a host, such as https://kinband.example.org: leave out the path"
        )
    if "openid" not in settings.scopes:
        raise BadInputError(f"{file}: scopes must have openid, got {' '.join(settings.scopes)}")
    if settings.audience == settings.client_id:
        raise BadInputError(
            f"{file}: audience must differ from client_id, so that no token of a sign-in passes for one of a program"
        )
    if settings.ca_file is not None:
        try:
            ssl.create_default_context(cafile=str(settings.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise BadInputError(f"{file}: ca_file {settings.ca_file} cannot be read as certificates in PEM") from error
