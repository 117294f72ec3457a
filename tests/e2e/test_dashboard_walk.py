"""The dashboard in a real browser: signing in, the map, the plan, undoing, stopping, the audit log, phones and themes.

Screenshots go to the folder that `KINBAND_SCREENSHOTS` names, else they are kept with the test's temporary files.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from tests.support.service_crowd import load_of, reward_of
from tests.support.service_process import ROOT, Options, ServiceProcess, make_tokens, service

STATIONS = [str(1001 + 7 * number) for number in range(21)]
HOURS = 24
PAGES = [
    "/",
    "/stations",
    f"/stations/{STATIONS[1]}",
    "/plan",
    "/similarity",
    "/rails",
    "/audit",
    "/help",
    "/decisions/d000030",
]
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip
expect.set_options(timeout=15_000)  # milliseconds; cores are few


@dataclass
class Network:
    """A service in assist mode with some hours behind it, and tokens to come in with."""

    process: ServiceProcess
    tokens: dict[str, str]

    @property
    def url(self) -> str:
        """Where a browser keeps our cookie without https."""
        return self.process.base.replace("127.0.0.1", "localhost")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What is on record of a kind, newest first."""
        with self.process.client(self.tokens["nms"]) as client:
            found: list[dict[str, Any]] = client.get("/v1/events", params={"kind": kind}).json()["events"]
        return found


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("dashboard")
    options = Options(
        str(folder / "ledger.db"), mode="assist", rails="knobs: {tilt: {max: 8}}", names=STATIONS, placed=True,
        clock=str(folder / "clock"),
    )  # fmt: skip
    (folder / "clock").write_text("2026-11-20T06:00:00+00:00")
    with service(options, folder) as process:
        tokens = make_tokens(options.url, {"nms": "operator", "Ada": "operator", "boss": "admin", "guest": "viewer"})
        with process.client(tokens["boss"]) as client:
            live_on(client, folder / "clock")
        yield Network(process, tokens)
        assert process.stop() == 0
        assert "Traceback" not in process.log_text()


def live_on(client: httpx.Client, clock: Path) -> None:
    """Let hours pass: some stations decide by themselves, the others wait for a person in the last one."""
    client.put("/v1/mode", json={"mode": "autonomous", "stations": STATIONS[12:]}).raise_for_status()
    client.put("/v1/mode", json={"mode": "shadow", "stations": STATIONS[18:]}).raise_for_status()
    for hour in range(HOURS + 1):
        now = datetime(2026, 11, 20, 6, tzinfo=UTC) + timedelta(hours=hour)
        clock.write_text(now.isoformat())
        states = {name: {"load": load_of(str(hour), name)} for name in STATIONS}
        allowed = {name: {"tilt": [2, 6, 8]} for name in STATIONS[:12]} if hour == HOURS else {}  # what runs is 4
        body = {"slot": now.isoformat(), "states": states, "allowed": allowed}
        made = client.post("/v1/decisions", json=body).raise_for_status().json()["decisions"]
        if hour < HOURS:
            outcomes = [{"decision": d["id"], "reward": reward_of(d["id"], d["run"]["tilt"])} for d in made]
            client.post("/v1/outcomes", json={"outcomes": outcomes}).raise_for_status()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """The folder for screenshots."""
    folder = Path(os.environ.get("KINBAND_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass
class Watch:
    """What a browser complains about, and whom it talks to.

    Attributes:
        complaints: Errors and warnings of the console, errors of scripts, requests that failed.
        hosts: To which it sent requests.
        policies: The content security policies of pages.
    """

    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)

    def look_at(self, page: Page) -> None:
        """Listen to a page."""
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self._hear("error", str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("requestfailed", lambda request: self._failed(request.url, request.failure))
        page.on("response", lambda answer: self._answered(answer.headers))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _failed(self, url: str, why: str | None) -> None:
        if why != "net::ERR_ABORTED":  # a look for news that a click has overtaken
            self.complaints.append(f"{url}: {why}")

    def _answered(self, headers: dict[str, str]) -> None:
        if headers.get("content-type", "").startswith("text/html"):
            self.policies.add(headers.get("content-security-policy", "none"))

    def check(self, network: Network) -> None:
        """Check that all went well, and that nobody else was spoken to."""
        assert self.complaints == []
        assert self.hosts == {urlsplit(network.url).netloc}
        assert len(self.policies) == 1
        assert all(part in next(iter(self.policies)) for part in ("script-src 'self'", "frame-ancestors 'none'"))
        assert "unsafe" not in next(iter(self.policies))


@contextmanager
def visitor(network: Network, browser: Browser, name: str | None, **looks: Any) -> Iterator[tuple[Page, Watch]]:
    """A page of somebody who is signed in, and what there is to complain about."""
    context: BrowserContext = browser.new_context(base_url=network.url, **looks)
    context.set_default_timeout(15_000)
    page, watch = context.new_page(), Watch()
    watch.look_at(page)
    if name is not None:
        sign_in(page, network.tokens[name])
    try:
        yield page, watch
    finally:
        context.close()


def sign_in(page: Page, token: str) -> None:
    """Paste a token."""
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def photograph(page: Page, file: Path) -> None:
    page.screenshot(path=file, full_page=True)
    assert file.stat().st_size > 5_000


def waiting(page: Page) -> list[str]:
    """The stations on the page of the plan."""
    return page.locator("tbody th[scope=row] > a").all_inner_texts()


def test_an_operator_walks_from_signing_in_to_the_audit_log(network: Network, browser: Browser, shots: Path) -> None:
    with visitor(network, browser, None, viewport={"width": 1280, "height": 800}) as (page, watch):
        check_signing_in(page, network, watch)
        check_map(page, shots)
        approved = check_plan(page, shots)
        check_roll_back(page, approved, shots)
        check_stop(page, shots)
        check_audit(page, approved, shots)
        check_signing_out(page)
        watch.check(network)


def check_signing_in(page: Page, network: Network, watch: Watch) -> None:
    """A wrong token is refused, the right one leads to the page that was asked for."""
    page.goto("/plan")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Fplan$"))
    good = network.tokens["Ada"]
    page.get_by_label("Token").fill(good[:-1] + ("A" if good[-1] != "A" else "B"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    assert [text for text in watch.complaints if "401" not in text] == []
    watch.complaints.clear()  # a browser says of itself that a page was answered with 401
    page.get_by_label("Token").fill(good)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{network.url}/plan")
    expect(page.locator(".who")).to_contain_text("Ada")


def check_map(page: Page, shots: Path) -> None:
    """All sectors are on the map, in three colourings, and a wedge leads to its station."""
    page.get_by_role("link", name="Overview").click()
    wedges = page.locator("svg.map a.sector-link")
    expect(wedges).to_have_count(len(STATIONS))
    photograph(page, shots / "overview.png")
    for colouring in ("Mode", "Last change", "Reward"):
        page.get_by_role("link", name=colouring, exact=True).click()
        expect(page.get_by_role("link", name=colouring, exact=True)).to_have_attribute("aria-current", "true")
        expect(wedges).to_have_count(len(STATIONS))
    wedges.filter(has=page.locator("title", has_text=STATIONS[4])).locator(".sector").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(STATIONS[4])
    photograph(page, shots / "station.png")


def check_plan(page: Page, shots: Path) -> str:
    """One change is approved, one rejected with a comment, the rest approved together; return the first's station."""
    page.get_by_role("link", name="Plan").click()
    names = waiting(page)
    assert sorted(names) == STATIONS[:12]  # the largest gain first
    photograph(page, shots / "plan.png")
    page.get_by_role("button", name=f"Approve {names[0]}", exact=True).click()
    expect(page.locator(".flash")).to_have_text("1 change was approved and carried out.")
    assert waiting(page) == names[1:]
    page.get_by_label(f"Tick {names[1]}", exact=True).check()
    page.get_by_label("Comment").fill("not before the match")
    page.get_by_role("button", name="Reject ticked").click()
    expect(page.locator(".flash")).to_have_text("1 change was rejected.")
    page.locator(f"tr:has-text('{names[2]}') small a").click()  # one by the page of the decision
    page.get_by_label("Comment").fill("agreed")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".flash")).to_have_text("1 change was approved and carried out.")
    page.get_by_label("Tick all").check()
    expect(page.locator("[data-ticked]")).to_have_text(f"{len(names) - 3} ticked")
    page.get_by_role("button", name="Approve ticked").click()
    expect(page.locator(".flash")).to_have_text(f"{len(names) - 3} changes were approved and carried out.")
    expect(page.locator("main")).to_contain_text("Nothing waits")
    return names[0]


def check_roll_back(page: Page, station: str, shots: Path) -> None:
    """What was approved is undone on the station's page."""
    page.get_by_role("link", name="Stations", exact=True).first.click()
    page.get_by_role("link", name=station, exact=True).click()
    runs = page.locator(".facts div", has_text="Runs").locator("dd")
    expect(runs).not_to_have_text("tilt 4")
    page.locator("summary", has_text="Roll back").click()
    page.locator("details[open]").get_by_label("Comment").fill("users complained")
    photograph(page, shots / "roll-back.png")
    page.get_by_role("button", name="Roll back now").click()
    expect(page.locator(".flash")).to_contain_text(f"{station} runs")
    expect(page.locator(".flash")).to_contain_text("again")
    expect(runs).to_have_text("tilt 4")


def check_stop(page: Page, shots: Path) -> None:
    """Everything is stopped, every page says so, and goes on."""
    page.get_by_role("link", name="Overview").click()
    page.locator("summary", has_text="Stop everything").click()
    page.locator("details[open]").get_by_label("Comment").fill("storm")
    page.get_by_role("button", name="Stop now").click()
    expect(page.locator(".banner.stop")).to_contain_text("storm")
    photograph(page, shots / "stopped.png")
    page.get_by_role("link", name="Plan").click()
    expect(page.locator(".banner.stop")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    page.locator("summary", has_text="Resume").click()
    page.locator("details[open]").get_by_label("Comment").fill("over")
    page.get_by_role("button", name="Resume now").click()
    expect(page.locator(".banner.stop")).to_have_count(0)


def check_audit(page: Page, approved: str, shots: Path) -> None:
    """All that was done is in the log, with who and why."""
    page.get_by_role("link", name="Audit", exact=True).click()
    page.get_by_label("Who").fill("Ada")
    page.get_by_role("button", name="Filter").click()
    log = page.locator("table.log-table")
    for words in ("not before the match", "agreed", "users complained", "storm", "over", approved, "Ada"):
        expect(log).to_contain_text(words)
    assert log.locator("tbody tr").count() > 15
    photograph(page, shots / "audit.png")


def check_signing_out(page: Page) -> None:
    """Who has signed out sees nothing any more, nor by going back."""
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    page.goto("/audit")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Faudit$"))
    page.go_back()
    expect(page.locator("table")).to_have_count(0)


def test_a_viewer_finds_no_buttons_and_forged_forms_are_refused(network: Network, browser: Browser) -> None:
    with visitor(network, browser, "guest", viewport={"width": 1280, "height": 800}) as (page, watch):
        expect(page.locator(".who")).to_contain_text("viewer")
        for path in PAGES:
            page.goto(path)
            for name in ("Approve", "Reject", "Roll back", "Freeze", "Stop", "Mode", "Set the mode", "Resume"):
                assert page.get_by_role("button", name=name).count() == 0, (path, name)
            assert page.locator("summary.button").count() == 0
        watch.check(network)
        page.goto("/plan")
        csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
        assert csrf
        before = len(network.events("approval")), len(network.events("switch"))
        post, own = page.context.request.post, {"Sec-Fetch-Site": "same-origin"}
        for path in ("/plan/approve", "/plan/reject", "/stop", "/mode", f"/stations/{STATIONS[0]}/roll-back"):
            answer = post(path, form={"csrf": csrf, "id": "d000510", "mode": "autonomous"}, headers=own)
            assert answer.status == 403, path
            assert "needs the role" in answer.text()
        assert (len(network.events("approval")), len(network.events("switch"))) == before
    with visitor(network, browser, "Ada") as (page, _):
        post = page.context.request.post
        page.goto("/plan")
        csrf = page.locator("input[name=csrf]").first.get_attribute("value") or ""
        assert post("/stop", form={"csrf": "guessed"}, headers=own).status == 403
        assert post("/stop", form={}, headers=own).status == 403
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
            assert post("/stop", form={"csrf": csrf}, headers=headers).status == 403
        assert len(network.events("switch")) == before[1]


def test_the_policy_of_pages_lets_nothing_in_from_elsewhere(network: Network, browser: Browser) -> None:
    with visitor(network, browser, "guest") as (page, watch):
        page.goto("/")
        ran = page.evaluate("""async () => {
            const script = document.createElement("script");
            script.textContent = "window.smuggled = 1";
            document.head.append(script);
            const image = new Image();
            const loaded = new Promise(done => { image.onload = () => done(true); image.onerror = () => done(false); });
            image.src = "https://evil.example/pixel.png";
            const fetched = await fetch("https://evil.example/").then(() => true, () => false);
            return [window.smuggled === undefined, await loaded, fetched];
        }""")
        assert ran == [True, False, False]
        assert sum("Content Security Policy" in text for text in watch.complaints) >= 3
        assert page.evaluate("document.cookie") == ""  # the session is not for scripts


def sideways(page: Page) -> list[str]:
    """What is wider than its place: the page itself, the navigation, tables."""
    found: list[str] = page.evaluate("""() => {
        const root = document.scrollingElement, wide = [];
        if (root.scrollWidth > root.clientWidth) wide.push(`the page is ${root.scrollWidth} wide`);
        for (const box of document.querySelectorAll("nav, .scroll"))
            if (box.scrollWidth > box.clientWidth) wide.push(`${box.tagName} ${box.scrollWidth} in ${box.clientWidth}`);
        return wide;
    }""")
    return found


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 390), ("light", 360)])
def test_every_page_fits_a_phone_in_either_theme(
    network: Network, browser: Browser, shots: Path, scheme: str, width: int
) -> None:
    looks = {"viewport": {"width": width, "height": 844}, "is_mobile": True, "has_touch": True, "color_scheme": scheme}
    with visitor(network, browser, "boss", **looks) as (page, watch):
        for path in PAGES:
            page.goto(path)
            assert sideways(page) == [], path
            if width == 390:
                photograph(page, shots / f"phone-{scheme}-{name_of(path)}.png")
        assert (luminance(page) < 0.3) == (scheme == "dark")
        watch.check(network)


def test_a_phone_says_who_did_what_in_the_audit_log(network: Network, browser: Browser) -> None:
    looks = {"viewport": {"width": 360, "height": 844}, "is_mobile": True, "has_touch": True}
    with visitor(network, browser, "boss", **looks) as (page, _):
        page.goto("/audit?kind=mode")
        who = page.locator("td[data-head=Who]").first
        expect(who).to_have_text("boss")
        expect(who).to_be_visible()
        assert "by " in page.evaluate("one => getComputedStyle(one, '::before').content", who.element_handle())


def test_the_theme_can_be_chosen_and_is_remembered(network: Network, browser: Browser, shots: Path) -> None:
    looks = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
    with visitor(network, browser, "boss", **looks) as (page, watch):
        page.goto("/")
        assert luminance(page) > 0.7
        for _ in range(2):  # from the system's to light to dark
            page.locator("[data-theme-toggle]").click()
        for path in PAGES:
            page.goto(path)
            assert luminance(page) < 0.3, path
            photograph(page, shots / f"dark-{name_of(path)}.png")
        watch.check(network)


def name_of(path: str) -> str:
    """What the screenshot of a page is called."""
    first, *rest = path.strip("/").split("/")
    return {"": "overview", "stations": "station" if rest else "stations"}.get(first, first)


def luminance(page: Page) -> float:
    """How bright the ground of a page is, from 0 to 1."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.fixture(scope="module")
def demonstration() -> Iterator[tuple[str, str]]:
    """Where a demonstration is, and a token to come in with; at full size where screenshots are wanted."""
    wanted = "KINBAND_SCREENSHOTS" in os.environ
    size = ["--stations", "63", "--speed", "60"] if wanted else ["--stations", "6", "--speed", "600"]
    command = [sys.executable, "-m", "kinband", "serve", "--demo", "--port", "0", *size]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        said = "".join(line for line, _ in zip(process.stdout, range(5), strict=False))
        url, token = re.findall(r"http://\S+:\d+", said)[0], re.findall(r"admin\s+(kb_\S+)", said)[0]
        yield url.replace("127.0.0.1", "localhost"), token
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_the_demonstration_moves_by_itself(demonstration: tuple[str, str], browser: Browser, shots: Path) -> None:
    """The read model in the README."""
    context = browser.new_context(base_url=demonstration[0], viewport={"width": 1280, "height": 800})
    page, watch = context.new_page(), Watch()
    watch.look_at(page)
    sign_in(page, demonstration[1])
    footer = page.locator("footer")
    first = footer.inner_text()
    expect(footer).not_to_have_text(first, timeout=20_000)  # without loading the page again
    photograph(page, shots / "dashboard.png")
    assert watch.complaints == []
    context.close()


def test_no_page_of_the_demonstration_scrolls_sideways_on_a_small_phone(
    demonstration: tuple[str, str], browser: Browser
) -> None:
    """It has a state of five features and knobs of long names."""
    for width in (360, 390):
        context = browser.new_context(
            base_url=demonstration[0], viewport={"width": width, "height": 780}, is_mobile=True, has_touch=True
        )
        page = context.new_page()
        sign_in(page, demonstration[1])
        for path in [*some_pages(page), "/stations/nobody", "/audit?every=1&kind=decision"]:
            page.goto(path)
            for details in page.locator("details.more, .groups details").all():
                details.evaluate("one => { one.open = true; }")
            assert sideways(page) == [], (path, width)
        context.close()


def some_pages(page: Page) -> list[str]:
    """The pages of a network whose stations are not known beforehand: one of each kind, and what changed something."""
    page.goto("/stations")
    station = page.locator("main table a[href^='/stations/']").first.get_attribute("href")
    page.goto("/audit?kind=applied")
    changed = page.locator("main table a[href^='/decisions/']").first.get_attribute("href")
    page.goto("/audit?kind=verdict")
    refused = page.locator("main table a[href^='/decisions/']").first.get_attribute("href")
    assert station is not None
    assert changed is not None
    assert refused is not None
    plain = [path for path in PAGES if path.count("/") == 1]
    return [*plain, station, f"{station}?evidence=1", changed, refused, f"{refused}?evidence=1"]
