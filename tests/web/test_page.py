"""The page in a browser, about a live cluster: what it shows, by keyboard, for screen readers, and whatever people write."""

import asyncio
import re
from typing import Literal

import aiohttp
import psutil
from playwright.async_api import Browser, Page, expect

from testbed.eventually import eventually
from tests.e2e.replicas import holder
from tests.e2e.tenant import GPU, claim, pod, request
from tests.web.conftest import RUNNING, SCRIPT, Site

_BAD = ("serious", "critical")


async def test_the_map_shows_each_card_with_its_holders(site: Site, page: Page) -> None:
    """Letters in the bar, the same in words, the profile, and links to claims and pods; what people write is text."""
    await page.goto(site.url())
    for name in RUNNING:
        bars = page.locator(f'[role=img][aria-label*="{site.team.namespace}/{name}"]')
        await expect(bars).to_have_count(2 if name == "train" else 1)
    for name, part in {"serve": "3g.40gb", "small-a": "1g.10gb", "train": "whole card"}.items():
        row = page.locator("tr", has=page.get_by_role("link", name=f"{site.team.namespace}/{name}")).first
        await expect(row).to_contain_text(part)
    await expect(page.locator("body")).to_contain_text(SCRIPT)
    assert await page.title() == "Map · apportion"
    assert await page.locator("script").count() == 1


async def test_a_pending_pods_reason_is_that_of_its_event(site: Site, page: Page) -> None:
    """From the queue to the claim's story: token, text, a remedy, and the Events in order."""
    said = await site.team.event("much", "NotAllocated")
    await page.goto(site.url("/queue"))
    row = page.locator("tr", has=page.get_by_role("link", name=f"{site.team.namespace}/much"))
    await expect(row).to_contain_text("NotAllocated")
    await expect(row).to_contain_text(said["message"].split(";")[0])
    await row.get_by_role("link", name=f"{site.team.namespace}/much").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"Claim {site.team.namespace}/much")
    await expect(page.locator("#state")).to_have_text("Waits: NotAllocated")
    await expect(page.locator("#remedies")).to_contain_text("AskForFewer")
    await expect(page.locator("#events")).to_contain_text("ClaimsNotAllocated")
    times = await page.locator("#events time").evaluate_all("all => all.map(each => each.dateTime)")
    assert times == sorted(times)
    await page.goto(site.url(f"/claims/{site.team.namespace}/odd"))
    await expect(page.locator("#why")).to_contain_text(SCRIPT)
    await expect(page.locator("#events")).to_contain_text(SCRIPT)
    assert "broken into" not in await page.title()


async def test_everything_is_reached_by_keyboard(site: Site, page: Page) -> None:
    """Skip link, search, a result, and its story; what has the focus is seen."""
    await page.goto(site.url())
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await page.goto(site.url())
    for _ in range(12):
        await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        if await page.locator("#q").evaluate("each => each === document.activeElement"):
            break
    await page.keyboard.type("train")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    await expect(page.locator("#q")).to_have_value("train")
    for _ in range(12):
        await page.keyboard.press("Tab")
        if "/claims/" in (await page.evaluate("document.activeElement.href || ''")):
            break
    await page.keyboard.press("Enter")
    await expect(page.locator("#state")).to_have_text("Served")
    await expect(page.locator("#devices")).to_contain_text("gpu.apportion.dev/gpu-a/gpu-")


async def test_the_checker_finds_nothing_serious(site: Site, browser: Browser, checker: str) -> None:
    """axe-core on every page: contrast, names, headers, landmarks; contrast in the dark colours, too."""
    team, every = site.team.namespace, "axe.run()"
    contrast = "axe.run({runOnly: ['color-contrast']})"
    looks: tuple[tuple[Literal["light", "dark"], str, tuple[str, ...]], ...] = (
        (
            "light",
            every,
            ("/nodes/npu-a", "/queue", "/free", "/search?q=train", "/nodes/none", f"/claims/{team}/much"),
        ),
        ("dark", contrast, ("/nodes/npu-a", f"/claims/{team}/much", f"/pods/{team}/train")),
        ("light", contrast, ("/",)),
    )
    for scheme, script, paths in looks:
        page = await browser.new_page(color_scheme=scheme)
        for path in paths:
            await page.goto(site.url(path))
            await page.evaluate(checker)
            found = await page.evaluate(script)
            bad = [
                (each["id"], [node["html"] for node in each["nodes"][:3]])
                for each in found["violations"]
                if each["impact"] in _BAD
            ]
            assert bad == [], (scheme, path)
            assert found["passes"]
        await page.close()


async def test_it_renews_itself_and_leaves_the_focus_where_it_is(site: Site, page: Page) -> None:
    """What came is shown without a new page; the link that had the focus has it still; updates can be paused."""
    await page.goto(site.url("/queue"))
    await page.evaluate("window.same = true")
    focused = page.get_by_role("link", name=f"{site.team.namespace}/greedy")
    await focused.focus()
    await site.team.make(claim("later", request(GPU, count=12)))
    await site.team.make(pod("later", "later", priorityClassName="system-node-critical"))
    await expect(page.locator("#rows")).to_contain_text(f"{site.team.namespace}/later")
    await expect(focused).to_be_focused()
    assert await page.evaluate("window.same") is True
    await page.get_by_role("button", name="Pause updates").click()
    await expect(page.get_by_role("button", name="Go on updating")).to_be_visible()


async def test_it_works_without_its_script(site: Site, browser: Browser) -> None:
    """Links and forms are those of HTML; there is no button that would do nothing."""
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(site.url())
    assert await page.get_by_role("button").all_inner_texts() == ["Search"]
    await page.get_by_role("searchbox", name="Search").fill("npu-a")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name="npu-a", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Node npu-a")
    await context.close()


async def test_what_is_not_there_is_said_in_one_sentence(site: Site) -> None:
    """No page, no object, no number: 404 and 400, with the words in HTML that a script cannot break out of."""
    async with aiohttp.ClientSession() as session:
        for path, status, words in (
            ("/claims/a/%3Cscript%3E", 404, "There is no claim a/&lt;script&gt;."),
            ("/nodes/none", 404, "There is no node none."),
            ("/nothing", 404, "Not Found"),
            ("/queue?page=x", 400, "page: expected a number from 1 on."),
            ("/search?q=%22%3E%3Cscript%3E", 200, 'value="&#34;&gt;&lt;script&gt;"'),
        ):
            async with session.get(site.url(path)) as answer:
                assert answer.status == status
                text = await answer.text()
                assert words in text
                assert text.count("<script") == 1
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
        async with session.head(site.url()) as answer:
            assert (answer.status, await answer.read()) == (200, b"")


async def test_each_replica_says_who_leads_and_how_old_its_data_is(site: Site, page: Page) -> None:
    """One leads, the other is a stand-by, and both show the same map."""

    async def shown() -> tuple[str, list[str], list[list[str]]]:
        leads = await holder(site.installation)
        sources, maps = [], []
        for replica in (0, 1):
            await page.goto(site.url(replica=replica))
            sources.append(await page.inner_text("#source"))
            maps.append(await page.locator(".bar").evaluate_all("all => all.map(each => each.ariaLabel)"))
        return leads, sources, maps

    # A page looks at the Lease every two seconds, and each has watches of its own.
    leads, sources, maps = await eventually(
        shown, lambda found: all(found[0] in text for text in found[1]) and found[2][0] == found[2][1]
    )
    assert maps[0] == maps[1]
    assert all(leads in text for text in sources)
    assert sum("a stand-by" in text for text in sources) == 1
    assert sum(f"Answered beside {leads}, which leads." in text for text in sources) == 1
    assert all(
        re.search(r"The API server was last heard \d+ s ago; of \w+, silent", text) for text in sources
    )


async def test_the_page_may_die_and_never_outlives_its_operator(site: Site) -> None:
    """It is another process, which is started anew; the operator goes on, and when that is killed, the page ends too."""
    operator = site.installation.operators[0]
    before = operator.pid
    first = await _page_process(operator.pid)
    first.kill()
    second = await _page_process(operator.pid, but=first.pid)
    assert operator.pid == before
    async with aiohttp.ClientSession() as session:

        async def status() -> int:
            try:
                async with session.get(site.url()) as answer:
                    return answer.status
            except aiohttp.ClientError:
                return 0

        await eventually(status, lambda found: found == 200)
    # This process alone, and not its group.
    psutil.Process(operator.pid).kill()
    await asyncio.to_thread(second.wait, 60)


async def _page_process(operator: int | None, but: int = 0) -> psutil.Process:
    """Return the process of an operator's page."""

    def is_a_page(child: psutil.Process) -> bool:
        try:
            return child.status() != psutil.STATUS_ZOMBIE and "web" in child.cmdline()
        except psutil.NoSuchProcess:
            return False  # it has ended since it was listed

    async def children() -> list[psutil.Process]:
        return [each for each in psutil.Process(operator).children() if each.pid != but and is_a_page(each)]

    [found] = await eventually(children)
    return found
