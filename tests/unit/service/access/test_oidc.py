"""Tokens of an identity provider: which are taken, and why others are not."""

import hmac
import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import certifi
import httpx
import pytest
from tests.support.identity_provider import AUDIENCE, CLIENT, SECRET, IdentityProvider, identity_provider, new_key

from kinband.errors import BadInputError
from kinband.service.access.oidc import Person, Provider, word
from kinband.service.access.provider import ProviderAwayError, ProviderSettings, read_provider
from kinband.service.access.tokens import NotSignedInError, Role

ROLES = {"admins": Role.ADMIN, "noc": Role.OPERATOR, "everybody": Role.VIEWER}


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def there() -> Iterator[IdentityProvider]:
    with identity_provider() as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider(there: IdentityProvider, clock: Clock) -> Iterator[Provider]:
    settings = ProviderSettings(there.url, CLIENT, "https://kinband.example", "groups", ROLES, SECRET)
    found = Provider(replace(settings, audience=AUDIENCE), clock=clock)
    yield found
    found.close()


def sign_in(provider: Provider, there: IdentityProvider, **changed: Any) -> Person:
    """Go there and back as a browser does."""
    begun = provider.begin()
    back = httpx.get(begun.url).headers["location"]
    said = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    assert said["state"] == begun.state
    given: dict[str, Any] = {
        "nonce": begun.nonce,
        "verifier": begun.verifier,
        "issuer": said["iss"],
        "now": int(there.now()),
    }
    return provider.finish(said["code"], **given | changed)


def test_who_signs_in_has_a_subject_a_name_and_the_highest_of_the_roles(
    provider: Provider, there: IdentityProvider
) -> None:
    person = sign_in(provider, there)
    assert person.subject == f"{there.url} 248289761001"
    assert (person.name, person.role) == ("Ada Lovelace", "operator")
    there.person["groups"] = ["everybody", "admins"]
    assert sign_in(provider, there).role == "admin"
    there.person["groups"] = "everybody"
    assert sign_in(provider, there).role == "viewer"


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "another audience": ({"aud": "grafana"}, "is meant for another service"),
    "several audiences and nobody who asked": ({"aud": [CLIENT, "grafana"]}, "is meant for another service"),
    "asked for by another": ({"azp": "grafana"}, "is meant for another service"),
    "another issuer": ({"iss": "https://evil.example"}, "comes from another identity provider"),
    "expired": ({"exp": 1_000_000}, "has expired"),
    "of the future": ({"iat": 9_999_999_999}, "is of the future"),
    "wrong nonce": ({"nonce": "another"}, "does not belong to the one that was begun here"),
    "no nonce": ({"nonce": None}, "does not belong to the one that was begun here"),
    "no end": ({"exp": None}, "cannot be used here"),
    "no role": ({"groups": ["kitchen"]}, "nothing in 'groups' gives 'Ada Lovelace' a role here"),
    "no claim": ({"groups": None}, "nothing in 'groups' gives 'Ada Lovelace' a role here"),
    "a claim of another kind": ({"groups": {"noc": True}}, "nothing in 'groups' gives 'Ada Lovelace' a role here"),
    "a subject of several lines": ({"sub": "a\nb"}, "in a way that cannot be kept on record"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_token_that_is_not_for_this_sign_in_is_refused_in_a_sentence(
    provider: Provider, there: IdentityProvider, case: str
) -> None:
    there.spoil, sentence = REFUSALS[case]
    with pytest.raises(NotSignedInError, match=sentence) as caught:
        sign_in(provider, there)
    assert caught.value.reason == "provider"
    assert str(caught.value).count("\n") == 0
    assert "eyJ" not in str(caught.value)


def test_a_token_of_another_key_or_of_none_or_of_a_shared_secret_is_refused(
    provider: Provider, there: IdentityProvider
) -> None:
    there.signs = new_key("first")  # under the name of the good one
    with pytest.raises(NotSignedInError, match="is not signed by the identity provider"):
        sign_in(provider, there)
    there.signs, there.unsigned = None, True
    with pytest.raises(NotSignedInError, match="is not signed by the identity provider"):
        sign_in(provider, there)
    there.unsigned = False
    head, body = (urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in ({"alg": "HS256"}, {"sub": "x"}))
    public = there.keys[0].as_pem(private=False)  # taken for a secret
    mark = urlsafe_b64encode(hmac.digest(public, head + b"." + body, "sha256")).rstrip(b"=")
    forged = b".".join([head, body, mark]).decode()
    with pytest.raises(NotSignedInError, match="is not signed by the identity provider"):
        provider.identify(forged, now=int(there.now()))
    for text in ("eyJ", "eyJ.eyJ.x", "eyJhbGciOiJSUzI1NiJ9..", "eyJ" + "ä" * 5):
        with pytest.raises(NotSignedInError, match="is not signed by the identity provider"):
            provider.identify(text, now=0)


def test_a_code_counts_with_its_verifier_and_once(provider: Provider, there: IdentityProvider) -> None:
    with pytest.raises(NotSignedInError, match=r"did not take the sign-in \(invalid_grant\)"):
        sign_in(provider, there, verifier="guessed" * 8)
    begun = provider.begin()
    httpx.get(begun.url)
    known: dict[str, Any] = {"nonce": begun.nonce, "verifier": begun.verifier, "now": int(there.now())}
    code = next(iter(there.codes))
    assert provider.finish(code, issuer=None, **known).name == "Ada Lovelace"
    with pytest.raises(NotSignedInError, match="invalid_grant"):
        provider.finish(code, issuer=None, **known)
    with pytest.raises(NotSignedInError, match="comes from another identity provider than the one that was asked"):
        provider.finish(code, issuer="https://evil.example", **known)


def test_every_sign_in_has_another_state_nonce_and_challenge(provider: Provider) -> None:
    begun = [provider.begin() for _ in range(3)]
    for name in ("state", "nonce", "verifier"):
        assert len({getattr(one, name) for one in begun}) == 3
    asked = parse_qs(urlsplit(begun[0].url).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert begun[0].verifier not in begun[0].url
    assert asked["redirect_uri"] == ["https://kinband.example/sign-in/callback"]
    assert begun[0].verifier not in repr(begun[0])
    assert begun[0].state not in repr(begun[0])


def test_a_new_key_is_found_and_an_old_one_forgotten_without_asking_all_the_time(
    provider: Provider, there: IdentityProvider, clock: Clock
) -> None:
    sign_in(provider, there)
    there.keys = [new_key("second")]
    clock.now = 31.0
    assert sign_in(provider, there).name == "Ada Lovelace"
    assert there.asked.count("/keys") == 2
    there.signs, there.header = new_key("guessed"), {"kid": "guessed"}
    for _ in range(20):
        with pytest.raises(NotSignedInError, match="is not signed by"):
            provider.identify(there.access_token(), now=int(there.now()))
    assert there.asked.count("/keys") == 2
    there.signs, there.header, clock.now = None, {}, 7_300.0
    assert sign_in(provider, there).name == "Ada Lovelace"
    assert there.asked.count("/keys") == 3  # old by now


def test_a_provider_that_is_away_is_told_and_what_it_said_before_holds(
    provider: Provider, there: IdentityProvider, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    there.broken = True
    with pytest.raises(ProviderAwayError, match="cannot be reached: try again later, or sign in with a token"):
        provider.begin()
    asked = len(there.asked)
    with pytest.raises(ProviderAwayError):
        provider.begin()
    assert len(there.asked) == asked  # not again within five seconds
    clock.now, there.broken = 6.0, False
    sign_in(provider, there)
    clock.now, there.broken = 8_000.0, True
    with caplog.at_level(logging.WARNING):
        assert provider.identify(there.access_token(), now=int(there.now())).name == "Ada Lovelace"
    assert "what it said before of its keys holds" in caplog.text


ELSEWHERE: list[dict[str, Any]] = [
    {"issuer": "https://evil.example"},
    {"jwks_uri": "http://evil.example/keys"},
    {"token_endpoint": None},
]


@pytest.mark.parametrize("changed", ELSEWHERE)
def test_a_discovery_that_leads_elsewhere_is_not_followed(
    provider: Provider, there: IdentityProvider, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    said = there.document() | changed
    if "jwks_uri" in changed:
        monkeypatch.setattr(ProviderSettings, "local", False)
    monkeypatch.setattr(IdentityProvider, "document", lambda _: said)
    with pytest.raises(ProviderAwayError):
        provider.begin()


def test_access_tokens_are_taken_for_their_audience_alone(provider: Provider, there: IdentityProvider) -> None:
    now = int(there.now())
    assert provider.identify(there.access_token(sub="nms"), now=now).subject == f"{there.url} nms"
    with pytest.raises(NotSignedInError, match="this access token is meant for another service"):
        provider.identify(there.token(), now=now)  # one of a sign-in
    with pytest.raises(NotSignedInError, match="this access token has expired"):
        provider.identify(there.access_token(), now=now + 1000)
    without = Provider(replace(provider.settings, audience=None))
    with pytest.raises(NotSignedInError, match="are not taken here"):
        without.identify(there.access_token(), now=now)
    without.close()


def test_signing_out_of_the_provider_names_the_token_where_it_is_known(
    provider: Provider, there: IdentityProvider
) -> None:
    assert provider.sign_out_url(None) is None  # nothing is known of it yet
    person = sign_in(provider, there)
    url = provider.sign_out_url(person.token) or ""
    asked = parse_qs(urlsplit(url).query)
    assert url.startswith(f"{there.url}/out?")
    assert asked["id_token_hint"] == [person.token]
    assert asked["post_logout_redirect_uri"] == ["https://kinband.example/sign-in"]
    assert "id_token_hint" not in (provider.sign_out_url(None) or "")
    assert person.token not in repr(person)


def test_what_a_provider_says_of_an_error_is_repeated_only_if_it_is_a_word() -> None:
    assert word("access_denied") == "access_denied"
    assert {word(said) for said in (None, 7, "<b>", "x" * 61, "two words", "")} == {"without a reason"}


# --- The file -------------------------------------------------------------------------------------------------------

GOOD = """\
issuer: https://id.example.org/realms/network
client_id: kinband
url: https://kinband.example.org/
roles:
  claim: realm_access.roles
  values: {network-admins: admin, noc: operator, staff: viewer}
"""


def read(folder: Path, text: str) -> ProviderSettings:
    file = folder / "oidc.yaml"
    file.write_text(text)
    return read_provider(file)


def test_a_file_of_a_provider_is_read_with_its_secret_beside_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sesame\n")
    found = read(tmp_path, GOOD + f"client_secret_file: {tmp_path / 'secret'}\naudience: https://kinband.example/api\n")
    assert found.secret == "sesame"  # noqa: S105
    assert "sesame" not in repr(found)
    assert found.url == "https://kinband.example.org"
    assert found.role_in({"realm_access": {"roles": ["staff", "noc"]}}) is Role.OPERATOR
    assert found.role_in({"realm_access.roles": "staff"}) is Role.VIEWER
    assert found.role_in({"realm_access": ["noc"]}) is None


def test_certificates_of_an_own_authority_are_read(tmp_path: Path) -> None:
    Provider(read(tmp_path, GOOD + f"ca_file: {certifi.where()}\n")).close()
    with pytest.raises(BadInputError, match="cannot be read as certificates in PEM"):
        read(tmp_path, GOOD + f"ca_file: {tmp_path / 'oidc.yaml'}\n")


def test_a_name_is_one_printable_line(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert found.name_in({"name": " Ada\n\u202eLovelace ", "sub": "1"}) == "Ada Lovelace"
    assert found.name_in({"name": 7, "email": "ada@example.org", "sub": "1"}) == "ada@example.org"
    assert found.name_in({"name": "\n", "sub": "1"}) == "1"
    assert len(found.name_in({"name": "x" * 1000, "sub": "1"})) == 60


BAD = {
    "colour: red\n": "colour: extra inputs are not permitted",
    "scopes: [email]\n": "scopes must have openid, got email",
    "audience: kinband\n": "audience must differ from client_id",
    "ca_file: /nowhere.pem\n": "ca_file /nowhere.pem cannot be read",
    "client_secret_file: /nowhere\n": "client_secret_file /nowhere cannot be read",
}


@pytest.mark.parametrize("line", BAD)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadInputError, match=BAD[line]):
        read(tmp_path, GOOD + line)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("issuer: https://id", "issuer: http://id", "issuer must be an https address, got 'http://id.example.org"),
        ("example.org/realms", "example.org?realms", r"issuer must be an address without \?, # and @"),
        ("kinband.example.org/", "kinband.example.org/there", "url is a scheme and a host"),
        ("viewer}", "king}", "a role is one of viewer, operator, admin, got 'king'"),
        ("client_id: kinband\n", "", "client_id: field required"),
        ("client_id: kinband\n", "client_id: 7\n", "client_id: input should be a valid string"),
        ("  values: {network-admins: admin, noc: operator, staff: viewer}", "  values: {}", "roles.values: "),
        ("issuer: ", "issuer: [", "is no YAML, line"),
        (GOOD, "", "the file: input should be"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInputError, match=sentence):
        read(tmp_path, GOOD.replace(old, new))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"oidc\.yaml cannot be read"):
        read_provider(tmp_path / "oidc.yaml")
