"""The pages in a real browser: parts load, hostile texts do nothing, a search finds, and a telephone is wide enough.

``make browser`` installs what they need.
"""

import shutil
import threading

import pytest
from support.shown_lakes import shown_lake

from lance_spark.ui import looking, server
from lance_spark.ui.looking import Subject
from lance_spark.ui.server import Serving, start

pytestmark = pytest.mark.when(day=0)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
"""Where the system has one; None for playwright's own."""
T = "t=shop.products&"
PAGES = {
    "the lake": "",
    "a table": f"table?{T}",
    "a version": f"version?{T}ref=exp",
    "a difference": f"diff?{T}a=main&b=exp",
    "a row": f"row?{T}column=id&value=7",
    "a story": f"story?{T}column=id&value=7&branch=exp",
    "a review": f"merge?{T}source=exp&into=main",
    "a ready review": f"merge?{T}source=exp&into=main&prefer=theirs",
    "maintenance": f"upkeep?{T}",
    "a lake's maintenance": "upkeep",
    "a lake's review": "lake-merge?branch=etl/nightly",
    "a missing version": f"version?{T}ref=nope",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    lake = shown_lake(tmp_path_factory.mktemp("browser"), tables=30)
    running = start(Serving(Subject(catalog=lake.catalog), allow_merge=True))
    yield running.url
    running.close()


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("Pages cannot be tested without a browser: make browser")
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def visited(page, address):
    """The page with everything in it loaded, also what is loaded on demand."""
    page.goto(address)
    for _ in range(4):
        page.wait_for_load_state("networkidle")
        page.mouse.wheel(0, 2_000)
    for _ in range(3):  # what is loaded may have a next part
        for asked in page.query_selector_all("[data-ask] a"):
            asked.click()
        page.wait_for_load_state("networkidle")
        for _ in range(5):
            page.locator(".waiting").first.wait_for(state="detached")  # the policy forbids waiting for an expression
            page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_runs_nothing_of_the_data(browser, address, name, width, scheme):
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page, told, asked = context.new_page(), [], []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        visited(page, address + PAGES[name])
        assert "taken" not in page.title()
        assert asked
        assert [each for each in asked if not each.startswith((address, "data:"))] == []
        assert [each for each in told if "404" not in each] == []
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.query_selector_all("[data-load]") == []
        texts = page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)")
        assert all(texts)


def test_a_search_finds_as_one_types_and_the_keyboard_leads_there(browser, address):
    page = browser.new_page()
    visited(page, address)
    page.keyboard.press("/")
    page.keyboard.type("events_2")
    page.get_by_text("10 tables with").wait_for()
    assert page.locator("#tables tbody tr").count() == 10
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.tagName")
    assert focused in ("A", "SUMMARY")
    page.close()


def test_a_newcomer_finds_which_branch_changed_a_row(browser, address):
    page = browser.new_page()
    visited(page, address)
    page.get_by_role("link", name="shop.products").click()
    page.get_by_placeholder("value").fill("7")
    page.get_by_role("button", name="Which branch changed it?").click()
    page.wait_for_load_state("networkidle")
    assert page.get_by_role("status").first.inner_text() == "Branches exp and without-seven changed this row."
    page.close()


@pytest.mark.parametrize("page", [PAGES["a row"], PAGES["a difference"], PAGES["a review"]])
def test_cells_that_differ_are_in_sight_on_a_telephone(browser, address, page):
    with browser.new_context(viewport={"width": 390, "height": 900}) as context:
        shown = context.new_page()
        visited(shown, address + page)
        ends = shown.evaluate("[...document.querySelectorAll('td.changed')].map(e => e.getBoundingClientRect().right)")
        assert len(ends) > 1
        assert max(ends) <= 390
        names = shown.evaluate(
            "[...document.querySelectorAll('a.ref')].map(e => [e.innerText, e.getClientRects().length, "
            "e.getBoundingClientRect().height])"
        )
        assert [name for name, _, height in names if height > 30] == []  # one line: no name is broken within a word


def test_rows_and_labels_are_whole_on_a_telephone(browser, address):
    with browser.new_context(viewport={"width": 390, "height": 900}) as context:
        page = context.new_page()
        visited(page, f"{address}table?{T}")
        ends = page.evaluate("[...document.querySelectorAll('.rowwise td')].map(e => e.getBoundingClientRect().right)")
        assert len(ends) > 20
        assert max(ends) <= 390
        cut = "[...document.querySelectorAll('.version .pill')].map(e => e.scrollWidth - e.clientWidth)"
        assert max(page.evaluate(cut)) <= 0
        page.locator(".graph").focus()  # the keyboard scrolls to labels that are out of sight
        page.keyboard.press("ArrowRight")


def test_a_page_of_a_slow_store_says_so_and_becomes_whole(browser, address, monkeypatch):
    answered, look = threading.Event(), looking.look_at_lake
    monkeypatch.setattr(server, "_SOON", 0.05)
    monkeypatch.setattr(looking, "look_at_lake", lambda *given: (answered.wait(60), look(*given))[1])
    page = browser.new_page()
    page.goto(address)
    stop = page.get_by_role("button", name="Stop waiting")
    stop.wait_for()
    stop.focus()
    page.wait_for_timeout(1_500)  # the seconds count on, and the button keeps the focus
    assert page.evaluate("document.activeElement.innerText") == "Stop waiting"
    answered.set()
    page.get_by_role("heading", name="Lake").first.wait_for()
    assert page.title().startswith("Lake ")
    page.keyboard.press("/")
    page.keyboard.type("events_2")
    page.get_by_text("10 tables with").wait_for()
    page.close()


def test_a_command_is_copied(browser, address):
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        visited(page, f"{address}merge?{T}source=cheaper&into=main")
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()").startswith("lance-git -C ")
        page.evaluate("navigator.clipboard.writeText('')")


def test_the_button_merges_in_a_browser(browser, address):
    page = browser.new_page()
    visited(page, f"{address}merge?{T}source=cheaper&into=main")
    page.get_by_role("button", name="Merge now").click()
    page.wait_for_load_state("networkidle")
    assert "merge of cheaper@3" in page.inner_text("main")
    page.close()
