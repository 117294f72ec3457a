"""Signing in through an identity provider in a real browser, on a service that runs as `kinband serve --oidc`."""

import os
import re
import shutil
import socket
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.support.identity_provider import CLIENT, SECRET, identity_provider
from tests.support.serving import served

from kinband import ConfigurationSpace, Controller
from kinband.cli import main

FILE = """\
issuer: {issuer}
client_id: {client}
client_secret_file: {secret}
url: {here}
roles: {{claim: groups, values: {{noc: operator}}}}
label: Sign in with Example Networks
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def saved(folder: Path) -> str:
    """A controller to start with."""
    space = ConfigurationSpace(tilt=[2, 4, 6])
    Controller(space, ["3714", "3715"], state={"load": (0, 1)}, running={"tilt": 4}, mean=0.8, seed=1).save(folder)
    return str(folder)


def test_a_person_signs_in_looks_stops_and_signs_out_at_both(tmp_path: Path) -> None:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    port, shots = free_port(), Path(os.environ.get("KINBAND_SCREENSHOTS", tmp_path))
    shots.mkdir(parents=True, exist_ok=True)
    here = f"http://localhost:{port}"
    with identity_provider() as there:
        (tmp_path / "secret").write_text(SECRET)
        file = tmp_path / "oidc.yaml"
        file.write_text(FILE.format(issuer=there.url, client=CLIENT, secret=tmp_path / "secret", here=here))
        start = ("--ledger", str(tmp_path / "ledger.db"), "--start", saved(tmp_path / "state"))
        with served(*start, "--port", str(port), "--oidc", str(file)) as service:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
                page = browser.new_page()
                page.set_default_timeout(30_000)
                complaints: list[str] = []
                page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
                page.goto(f"{here}/stations")
                page.screenshot(path=shots / "sign-in-provider.png")
                page.get_by_role("link", name="Sign in with Example Networks").click()
                page.wait_for_url(f"{here}/stations")
                expect(page.locator(".who")).to_contain_text("Ada Lovelace")
                page.reload()
                expect(page.locator(".who small")).to_have_text("operator")
                page.screenshot(path=shots / "signed-in-provider.png")
                page.get_by_role("button", name="Sign out").click()
                page.wait_for_url(f"{here}/sign-in")  # by way of the provider
                assert there.asked[-1].startswith("/out?")
                page.goto(f"{here}/stations")
                page.wait_for_url(re.compile("/sign-in"))
                there.spoil = {"aud": "grafana"}
                page.get_by_role("link", name="Sign in with Example Networks").click()
                expect(page.get_by_role("alert")).to_have_text(
                    "This sign-in is meant for another service: sign in again."
                )
                page.screenshot(path=shots / "refused-provider.png")
                assert [line for line in complaints if "401" not in line] == []
                browser.close()
            code, log = service.end()
    assert code == 0
    assert "was refused: this sign-in is meant for another service: sign in again" in log
    assert not any(secret in log for secret in (SECRET, "eyJ", "code-0", "code_verifier"))
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--insecure-local",), "--oidc is for a service with access control: leave out --insecure-local"),
        (("--demo",), "--demo brings a network of its own: leave out --oidc"),
        ((), "nowhere.yaml cannot be read (No such file or directory): check --oidc"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = () if "--demo" in options else ("--ledger", str(tmp_path / "ledger.db"))
    assert main(["serve", *where, "--oidc", str(tmp_path / "nowhere.yaml"), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_without_its_extra_the_sign_in_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kinband.service.access.oidc", None)
    assert main(["serve", "--ledger", str(tmp_path / "ledger.db"), "--oidc", "oidc.yaml"]) == 2
    assert "pip install 'kinband[oidc]'" in capsys.readouterr().err
