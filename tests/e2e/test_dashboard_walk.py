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
from axe_playwright_python.sync_playwright import Axe
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
    "/plan?show=done",
    "/similarity",
    "/rails",
    "/audit",
    "/digest",
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
    expect(page.locator(".flash")).to_have_text(re.compile(rf"^Carried out: {names[0]} \(tilt 4 → \d\)\.$"))
    assert waiting(page) == names[1:]
    page.get_by_label(f"Tick {names[1]}", exact=True).check()
    page.get_by_label("Comment").fill("not before the match")
    page.get_by_role("button", name="Reject ticked").click()
    expect(page.locator(".flash")).to_contain_text(f"Rejected: {names[1]} (")
    page.locator(f"tr:has-text('{names[2]}') small a").click()  # one by the page of the decision
    page.get_by_label("Comment").fill("agreed")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".flash")).to_contain_text(f"Carried out: {names[2]} (")
    page.get_by_label("Tick all").check()
    expect(page.locator("[data-ticked]")).to_have_text(f"{len(names) - 3} ticked")
    page.get_by_role("button", name="Approve ticked").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Approve {len(names) - 3} changes?")
    photograph(page, shots / "approve.png")
    page.get_by_role("button", name=f"Approve {len(names) - 3} changes").click()
    expect(page.locator(".flash")).to_contain_text("Carried out: ")
    expect(page.locator(".flash")).to_contain_text(f"and {len(names) - 7} more")
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
    page.get_by_role("textbox", name="Who").fill("Ada")
    page.get_by_role("button", name="Filter").click()
    log = page.locator("table.log-table")
    for words in ("not before the match", "agreed", "users complained", "storm", "over", approved, "Ada"):
        expect(log).to_contain_text(words)
    assert log.locator("tbody tr").count() > 15
    photograph(page, shots / "audit.png")


# --- From the afternoon to the morning: approved by day, carried out by night ----------------------------------------

NIGHT = "maintenance:\n  - {from: '00:00', to: '05:00'}\nzone: UTC\n"


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """A service whose window opens at midnight and whose orders are confirmed; at 18:32 something waits."""
    folder = tmp_path_factory.mktemp("evening")
    options = Options(
        str(folder / "ledger.db"), mode="assist", rails=NIGHT, names=STATIONS[:9], placed=True, manner="confirmed",
        clock=str(folder / "clock"),
    )  # fmt: skip
    clock = folder / "clock"
    clock.write_text("2026-11-20T15:00:00+00:00")
    with service(options, folder) as process:
        tokens = make_tokens(options.url, {"nms": "operator", "Ada": "operator", "Bo": "operator"})
        with process.client(tokens["nms"]) as client:
            for hour in (15, 16, 17, 18):
                clock.write_text(f"2026-11-20T{hour}:00:00+00:00")
                ask(client, clock, tell=hour < 18)
        clock.write_text("2026-11-20T18:32:00+00:00")
        yield Network(process, tokens)
        assert process.stop() == 0
        assert "Traceback" not in process.log_text()


def ask(client: httpx.Client, clock: Path, *, tell: bool) -> None:
    """Ask for all of them, and tell what they earned."""
    slot = clock.read_text()
    allowed = {} if tell else {name: {"tilt": [2, 6, 8]} for name in STATIONS[:9]}  # what runs is 4
    body = {"slot": slot, "states": {n: {"load": load_of(slot, n)} for n in STATIONS[:9]}, "allowed": allowed}
    made = client.post("/v1/decisions", json=body).raise_for_status().json()["decisions"]
    if tell:
        outcomes = [{"decision": d["id"], "reward": reward_of(d["id"], d["run"]["tilt"])} for d in made]
        client.post("/v1/outcomes", json={"outcomes": outcomes}).raise_for_status()


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_what_is_approved_by_day_is_carried_out_by_night(
    evening: Network, browser: Browser, shots: Path, script: bool
) -> None:
    clock = Path(evening.process.options.clock)
    looks = {"viewport": {"width": 1366, "height": 768}, "java_script_enabled": script}
    still = {**looks, "java_script_enabled": False}  # a page that does not follow what others do
    with visitor(evening, browser, "Ada", **looks) as (ada, watch), visitor(evening, browser, "Bo", **still) as (bo, _):
        if script:
            names = check_an_evening(ada, bo, shots)
            check_a_night(ada, evening, clock, names, shots)
            watch.check(evening)
        else:  # by then most is over: what is left is filtered, looked at and rejected
            ada.goto("/plan?sort=station")
            names = waiting(ada)
            ada.get_by_label("Station contains").fill(names[-1])
            ada.get_by_role("button", name="Show", exact=True).click()
            assert waiting(ada) == [names[-1]]
            ada.get_by_label(f"Tick {names[-1]}", exact=True).check()
            ada.get_by_role("button", name="Approve ticked").click()
            expect(ada.get_by_role("heading", level=1)).to_have_text("Approve 1 change?")
            ada.get_by_role("link", name="Back").click()
            ada.get_by_role("button", name=f"Reject {names[-1]}", exact=True).click()
            expect(ada.locator(".flash")).to_contain_text(f"Rejected: {names[-1]}")


def check_an_evening(ada: Page, bo: Page, shots: Path) -> list[str]:
    """Ada approves five and takes one back; Bo, who looks at an older page, is told who was first."""
    bo.goto("/plan?sort=station")
    ada.goto("/plan")
    ada.get_by_label("Sort by").select_option("station")
    ada.get_by_role("button", name="Show", exact=True).click()
    expect(ada).to_have_url(re.compile("sort=station"))
    names = waiting(ada)
    assert len(names) >= 6
    ada.get_by_role("link", name="Station", exact=True).click()
    assert waiting(ada) == names[::-1]
    for name in names[:5]:
        ada.get_by_label(f"Tick {name}", exact=True).check()
    ada.get_by_label("Comment").fill("quiet night")
    ada.get_by_role("button", name="Approve ticked").click()
    expect(ada.locator("main")).to_contain_text("5 wait for their window and are due 21 Nov 2026 00:00 UTC")
    photograph(ada, shots / "night-approve.png")
    ada.get_by_role("button", name="Approve 5 changes").click()
    expect(ada.locator(".flash")).to_contain_text("Approved, due 21 Nov 2026 00:00 UTC: ")
    photograph(ada, shots / "night-approved.png")
    bo.get_by_role("button", name=f"Reject {names[0]}", exact=True).click()
    expect(bo.locator(".flash.bad")).to_contain_text(f"{names[0]} was decided about before: approved")
    expect(bo.locator(".flash.bad")).to_contain_text("by Ada at 20 Nov 2026 18:32 UTC (“quiet night”)")
    ada.get_by_role("link", name=re.compile("^Approved")).click()
    assert sorted(waiting(ada)) == names[:5]
    ada.get_by_role("button", name=f"Take {names[4]} back", exact=True).click()
    expect(ada.locator(".flash")).to_contain_text(f"Waits for a person again: {names[4]}")
    return names[:4]


def check_a_night(ada: Page, evening: Network, clock: Path, names: list[str], shots: Path) -> None:
    """The window opens: what was approved is ordered; one is confirmed, one fails, and one is rolled back."""
    clock.write_text("2026-11-21T00:01:00+00:00")
    ada.goto("/plan?show=ordered&sort=station")
    expect(ada.locator("tbody th[scope=row] > a")).to_have_count(4)  # by itself, without loading the page again
    assert waiting(ada) == names
    photograph(ada, shots / "night-ordered.png")
    with evening.process.client(evening.tokens["nms"]) as client:
        orders = {one["station"]: one["id"] for one in client.get("/v1/orders").json()["orders"]}
        assert sorted(orders) == names
        client.post(f"/v1/orders/{orders[names[0]]}/confirm").raise_for_status()
        client.post(f"/v1/orders/{orders[names[1]]}/fail", json={"why": "cell locked"}).raise_for_status()
        client.post(f"/v1/orders/{orders[names[2]]}/confirm").raise_for_status()
    ada.get_by_role("button", name=f"Confirm {names[3]}", exact=True).click()
    expect(ada.locator(".flash")).to_contain_text(f"Carried out: {names[3]}")
    ada.get_by_role("link", name="Done today").click()
    assert sorted(waiting(ada)) == names
    expect(ada.locator("tr", has_text=names[1])).to_contain_text("could not be carried out: cell locked")
    photograph(ada, shots / "night-done.png")
    ada.locator(f"tr:has-text('{names[0]}') small a").first.click()
    steps = ada.locator("ol.steps li")
    expect(steps).to_have_count(4)
    for number, words in enumerate(("waits for approval", "by Ada", "ordered", "by nms")):
        expect(steps.nth(number)).to_contain_text(words)
    photograph(ada, shots / "night-decision.png")
    ada.locator(".crumbs").get_by_role("link", name=names[0], exact=True).click()
    runs = ada.locator(".facts div", has_text="Runs").locator("dd")
    expect(runs).not_to_have_text("tilt 4")
    photograph(ada, shots / "night-station.png")
    ada.locator("main a[href^='/changes?']").first.click()
    expect(ada.get_by_role("heading", level=1)).to_contain_text(names[0])
    photograph(ada, shots / "night-change.png")
    ada.go_back()
    ada.locator("summary", has_text="Roll back").click()
    ada.get_by_role("button", name="Roll back now").click()
    expect(runs).to_have_text("tilt 4")


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
            assert page.locator("summary.button:not(.times summary)").count() == 0
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


def grave(page: Page) -> list[tuple[str, str, str]]:
    """What axe finds on a page that is serious or critical, with every menu open: the rule, what it says, where."""
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true; }")
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], one["help"], node["html"])
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(network: Network, browser: Browser, scheme: str) -> None:
    with visitor(network, browser, None, viewport={"width": 1366, "height": 768}, color_scheme=scheme) as (page, _):
        page.goto("/sign-in")
        assert grave(page) == []
        sign_in(page, network.tokens["boss"])
        expect(page.locator(".who")).to_be_visible()
        chosen = ["/?mode=assist&zoom=2&x=0.4&range=6h", "/?q=nobody", "/stations?q=nobody", "/stations/nobody"]
        for path in [*PAGES, *chosen]:
            page.goto(path)
            assert grave(page) == [], path
        page.set_content("<html><img src='/x.png'></html>")
        assert grave(page) != []  # it does look


def test_time_filters_and_map_go_with_the_address(network: Network, browser: Browser, shots: Path) -> None:
    with visitor(network, browser, "guest", viewport={"width": 1366, "height": 768}) as (page, watch):
        page.goto("/")
        plot = page.locator("#fleet-title + [data-live=fleet] svg.plot[data-first]")
        box = plot.bounding_box()
        assert box is not None
        long = int(plot.get_attribute("data-long") or 0)
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"[?&]since=[^&]+&until="))
        assert int(plot.get_attribute("data-long") or 0) < 0.4 * long
        page.locator("summary", has_text="Filter stations").click()
        page.locator("select[name=mode]").select_option("assist")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".chips")).to_contain_text("12 of 21 stations")
        assert "since=" in page.url
        expect(page.locator("svg.map a.faded")).to_have_count(len(STATIONS) - 12)
        photograph(page, shots / "filtered.png")
        page.get_by_role("link", name="Stations", exact=True).first.click()
        assert "since=" in page.url  # the range goes along
        page.goto("/?q=nobody")
        expect(page.locator("#map")).to_contain_text("No station fits these filters.")
        watch.check(network)


def test_the_map_is_zoomed_and_moved_by_mouse_and_by_keyboard(network: Network, browser: Browser, shots: Path) -> None:
    with visitor(network, browser, "guest", viewport={"width": 1366, "height": 768}) as (page, watch):
        page.goto("/")
        closest = page.locator("svg.map[data-zoom='4']")
        page.locator("svg.map").dblclick(position={"x": 300, "y": 200})
        expect(page).to_have_url(re.compile("zoom=2"))
        expect(page.locator("svg.map[data-zoom='2']")).to_be_visible()
        page.get_by_role("link", name="Closer").focus()
        page.keyboard.press("Enter")
        expect(closest).to_be_visible()
        assert page.evaluate("document.activeElement.id") == "map-closer"  # and stays where one was
        before = closest.get_attribute("viewBox")
        place = closest.bounding_box()
        assert place is not None
        page.mouse.move(place["x"] + 350, place["y"] + 200)
        page.mouse.down()
        page.mouse.move(place["x"] + 250, place["y"] + 150, steps=4)
        page.mouse.up()
        expect(closest).not_to_have_attribute("viewBox", before or "")
        expect(page).to_have_url(re.compile("zoom=4"))
        photograph(page, shots / "map-close.png")
        page.get_by_label("Station to find on the map").fill(STATIONS[4])
        page.keyboard.press("Enter")
        expect(page.locator("svg.map a.found title")).to_contain_text(STATIONS[4])
        page.get_by_role("link", name="The whole map").click()
        expect(page.locator("svg.map[data-zoom='1']")).to_be_visible()
        watch.check(network)


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
