"""The built pages, as a browser without a network shows them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from checkouts import ROOT
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Made by the theme: a script that it emits twice, and a first visit without a stored colour mode.
THEME_ERRORS = ("Identifier 'THEBE_JS_URL'", "Got invalid theme mode")

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"])]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        reason = "the page tests need Chromium, and none is installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that was opened, what it asked for, and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="module", params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def visit(browser: Browser, quick_book: Path, name: str) -> Iterator[Visit]:
    page = browser.new_page()
    seen = Visit(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("requestfailed", lambda request: seen.errors.append(f"failed: {request.url}"))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("console", lambda m: seen.errors.append(m.text) if m.type == "error" else None)
    page.goto((quick_book / f"{name}.html").as_uri(), wait_until="load")
    yield seen
    page.close()


def test_a_page_asks_no_other_host_and_complains_of_nothing(visit: Visit) -> None:
    visit.page.wait_for_timeout(300)
    local = ("file:", "data:", "blob:")
    assert [url for url in visit.requests if not url.startswith(local)] == []
    assert [error for error in visit.errors if not error.startswith(THEME_ERRORS)] == []


def test_formulas_are_drawn(visit: Visit) -> None:
    formulas = visit.page.locator(".math")
    if formulas.count():
        visit.page.wait_for_selector("mjx-container svg", state="attached")
        assert visit.page.locator("mjx-merror").count() == 0
        left = [text for text in formulas.all_inner_texts() if re.search(r"\\\(|\\\[|\$\$", text)]
        assert left == []


def test_every_picture_has_alt_text_and_loads(visit: Visit) -> None:
    pictures = visit.page.locator("article img")
    for index in range(pictures.count()):
        picture = pictures.nth(index)
        alt = picture.get_attribute("alt") or ""
        assert len(alt) >= 30 and not alt.endswith(".png"), picture.get_attribute("src")
        assert picture.evaluate("i => i.complete && i.naturalWidth > 0")


def test_a_page_is_readable_on_a_phone(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.page.wait_for_timeout(200)
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    visit.page.set_viewport_size({"width": 1280, "height": 720})
    assert width <= 390


def test_links_inside_the_book_lead_somewhere(quick_book: Path, name: str) -> None:
    here = quick_book / f"{name}.html"
    html = here.read_text(encoding="utf-8")
    for link in set(re.findall(r'<a [^>]*href="([^"]+)"', html)):
        target, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (here.parent / target).resolve() if target else here
        assert path.is_file(), link
        if anchor and path.suffix == ".html":
            assert re.search(rf'id="{re.escape(anchor)}"', path.read_text(encoding="utf-8")), link


def test_no_page_knows_where_it_was_built(quick_book: Path) -> None:
    for path in (*quick_book.rglob("*.html"), *quick_book.rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text and "/ipykernel_" not in text, path


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_launch_button_leads_to_the_clean_notebook(quick_book: Path, chapter: str) -> None:
    page = quick_book / f"{chapter}.html"
    html = page.read_text(encoding="utf-8")
    (link,) = set(re.findall(r'href="(https://mybinder\.org[^"]+)"', html))
    assert unquote(link).endswith(f"/gh/parity-lib/parity-lib/main?urlpath=lab/tree/{chapter}.ipynb")
    assert (ROOT / f"{chapter}.ipynb").is_file()
    download = re.search(r'href="([^"]*_sources/[^"]+\.ipynb)"', html)
    assert download and (page.parent / download[1]).is_file()


def test_an_animation_moves_when_it_is_asked_to(visit: Visit) -> None:
    for animation in visit.page.locator("figure.parity-circle").all():
        picture = animation.locator("svg[role=img]")
        assert len(picture.get_attribute("aria-label") or "") >= 30
        last = picture.inner_html()
        animation.locator("input[type=range]").press("Home")
        assert animation.locator("output").inner_text() == "epoch 0"
        first = picture.inner_html()
        assert first != last
        animation.get_by_role("button").click()
        visit.page.wait_for_timeout(500)
        assert picture.inner_html() != first
