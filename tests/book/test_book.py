"""The built pages, as a browser without a network shows them."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from checkouts import ROOT
from matplotlib.image import imread
from playwright.sync_api import Browser, Page, expect

from parity_lib.build.claims import claims
from parity_lib.build.results import read_table
from parity_lib.build.workflow import JUPYTER_BOOK, contents

PAGES = contents(ROOT)
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]


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
def visit(tab: Page, smoke_book: Path, name: str) -> Iterator[Visit]:
    seen = Visit(tab)
    listeners = {
        "request": lambda request: seen.requests.append(request.url),
        "requestfailed": lambda request: seen.errors.append(f"failed: {request.url}"),
        "pageerror": lambda error: seen.errors.append(str(error)),
        "console": lambda message: seen.errors.append(message.text) if message.type == "error" else None,
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    tab.goto((smoke_book / f"{name}.html").as_uri(), wait_until="load")
    yield seen
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    tab.goto("about:blank")


def test_a_page_asks_no_other_host_and_complains_of_nothing(visit: Visit) -> None:
    visit.page.wait_for_timeout(300)
    local = ("file:", "data:", "blob:")
    assert [url for url in visit.requests if not url.startswith(local)] == []
    assert visit.errors == []


def test_formulas_are_drawn(visit: Visit) -> None:
    formulas = visit.page.locator(".math")
    if formulas.count():
        visit.page.wait_for_selector("mjx-container svg", state="attached")
        assert visit.page.locator("mjx-merror").count() == 0
        left = [text for text in formulas.all_inner_texts() if re.search(r"\\\(|\\\[|\$\$", text)]
        assert left == []


def test_every_picture_has_alt_text_and_loads(visit: Visit) -> None:
    for drawing in visit.page.locator("article .drawn").all():
        assert drawing.get_attribute("role") == "img" and len(drawing.get_attribute("aria-label") or "") >= 30
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
    small, wide = layouts(visit.page)
    visit.page.set_viewport_size({"width": 1280, "height": 720})
    assert width <= 390
    assert all(right <= 390 and letters >= 9.5 for right, letters in small)  # drawn for a phone, all of it in sight
    assert wide == [] and layouts(visit.page)[0] == []


def layouts(page: Page) -> list[list[list[float]]]:
    """Of the figures for phones that are in sight, and of the wide ones: right edge and smallest letters, in pixels."""
    measure = """all => all.filter(svg => svg.checkVisibility()).map(svg => {
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const sizes = [...svg.querySelectorAll('text')].map(t => scale * parseFloat(getComputedStyle(t).fontSize));
      return [svg.getBoundingClientRect().right, Math.min(99, ...sizes)]; })"""
    return [page.locator(f"article .drawn svg.{layout}").evaluate_all(measure) for layout in ("narrow", "wide")]


# The least contrast of any text in the article, by the formula of the Web Content Accessibility Guidelines.
LEAST_CONTRAST = """() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > .5) return c;
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const element of document.querySelectorAll("article *")) {
    const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join(" ").trim();
    if (!text || !element.checkVisibility() || element.closest("svg, script, style, .headerlink")) continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < least[0]) least = [contrast, element.className + ": " + text.slice(0, 60)];
  }
  return least;
}"""


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_figures_are_readable(visit: Visit, mode: str) -> None:
    visit.page.evaluate(f"document.documentElement.dataset.theme = document.documentElement.dataset.mode = '{mode}'")
    contrast, where = visit.page.evaluate(LEAST_CONTRAST)
    figures = visit.page.locator("article .drawn svg.wide")
    shown = figures.first.screenshot() if figures.count() else None
    visit.page.evaluate("document.documentElement.dataset.theme = document.documentElement.dataset.mode = 'light'")
    assert contrast >= 4.5, where
    if shown:  # the paper of a figure is that of the page, and something is drawn on it
        pixels = imread(io.BytesIO(shown))[..., :3]
        assert np.median(pixels[5:-5, -4:]) == pytest.approx(1.0 if mode == "light" else 0.07, abs=0.03)
        assert np.ptp(pixels) > 0.6


def test_links_inside_the_book_lead_somewhere(smoke_book: Path, name: str) -> None:
    here = smoke_book / f"{name}.html"
    html = here.read_text(encoding="utf-8")
    for link in set(re.findall(r'<a [^>]*href="([^"]+)"', html)):
        target, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = (here.parent / target).resolve() if target else here
        assert path.is_file(), link
        if anchor and path.suffix == ".html":
            assert re.search(rf'id="{re.escape(anchor)}"', path.read_text(encoding="utf-8")), link


def test_a_page_may_load_nothing_from_elsewhere_and_says_what_it_is_about(visit: Visit) -> None:
    policy = visit.page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
    assert "default-src 'self' file:" in policy and "http" not in policy
    about = visit.page.locator("meta[name=description]").get_attribute("content") or ""
    assert 20 <= len(about) <= 200 and "\\" not in about
    assert (visit.page.locator("meta[property='og:image']").get_attribute("content") or "").endswith("_static/card.png")
    refused = """() => new Promise(done => { addEventListener("securitypolicyviolation", () => done(true));
      new Image().src = "https://elsewhere.invalid/x.png"; setTimeout(() => done(false), 3000); })"""
    assert visit.page.evaluate(refused)


def test_the_card_and_the_icon_lie_beside_the_pages(smoke_book: Path) -> None:
    assert imread(smoke_book / "_static/card.png").shape[:2] == (630, 1200)
    assert (smoke_book / "_static/favicon.svg").is_file()


def test_figures_are_numbered_by_chapter_and_give_their_pictures(smoke_book: Path) -> None:
    html = (smoke_book / "notebooks/figure2.html").read_text(encoding="utf-8")
    assert re.findall(r'caption-number">Fig. ([\d.]+) ', html)[:2] == ["2.1", "2.2"]
    for kind in ("svg", "png"):
        assert f'href="../figures/figure2/heat_maps.{kind}"' in html
        assert (smoke_book / f"figures/figure2/heat_maps.{kind}").stat().st_size > 5000


def test_a_word_of_the_glossary_explains_itself(browser: Browser, smoke_book: Path) -> None:
    page = browser.new_page()
    page.goto((smoke_book / "notebooks/figure2.html").as_uri())
    words = page.locator("article a.term")
    named = words.all_inner_texts()
    assert "smoothing" in named and len(named) == len(set(named))  # the first of each on the page
    box = page.locator("#term-box")
    assert not box.is_visible()
    word = words.filter(has_text="smoothing")
    page.evaluate("async () => { await MathJax.startup.promise; }")  # late formulas push the word from the pointer
    for show in (word.hover, word.focus):
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        show()
        expect(box).to_contain_text("corners of the ReLU")
        page.wait_for_timeout(200)  # the events of scrolling it into view have come
        assert box.is_visible()
        page.keyboard.press("Escape")
        assert not box.is_visible()
        page.mouse.move(0, 0)
    word.click()
    page.wait_for_url("**/book/notation.html#term-smoothing")
    page.close()


def test_no_page_names_an_asset_of_another_host(smoke_book: Path) -> None:
    """Every page, also those that no test opens: scripts, styles, pictures, frames and imports are local."""
    elsewhere = r"[\"'](?:https?:)?//"
    asset = rf"<(?:script|img|iframe|source)[^>]*\bsrc={elsewhere}|@import[^;]*//"
    asset += rf"|<link(?=[^>]*stylesheet)[^>]*href={elsewhere}"
    for path in smoke_book.rglob("*.html"):
        assert re.search(asset, path.read_text(encoding="utf-8")) is None, path


def test_a_reader_finds_pages_by_their_words_from_disk(browser: Browser, smoke_book: Path) -> None:
    page = browser.new_page()
    page.goto((smoke_book / "book/index.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("permanent")
    page.keyboard.press("Enter")
    page.wait_for_selector("ul.search li a[href*='notebooks/sampling']", timeout=20_000)  # they come one by one
    assert page.locator("ul.search li a[href*='book/api']:visible").count() == 0
    page.close()


def reached_by_tab(page: Page, presses: int) -> list[str]:
    """What has the focus after each press of Tab, as tag, class and text; each must be visibly in focus."""
    describe = """() => { const e = document.activeElement, s = getComputedStyle(e);
      return [`${e.tagName} ${e.className} ${e.ariaLabel ?? e.title ?? ""} ${e.textContent.trim().slice(0, 40)}`,
              e.matches(":focus-visible")]; }"""
    seen = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        what, visible = page.evaluate(describe)
        assert visible or what.startswith("BODY"), what
        seen.append(what)
    return seen


def test_the_controls_are_reached_by_keyboard(browser: Browser, smoke_book: Path) -> None:
    page = browser.new_page()
    page.goto((smoke_book / "notebooks/ledger.html").as_uri())
    seen = "\n".join(reached_by_tab(page, 120))
    for control in ("search-button", "theme-switch-button", "The exact risk", "BUTTON", "SUMMARY"):
        assert control in seen, seen
    page.locator(".ledger button", has_text="open").focus()
    page.keyboard.press("Enter")
    rows = page.locator(".ledger tbody tr:visible")
    assert rows.count() and all(row.get_attribute("data-verdict") == "open" for row in rows.all())
    page.goto((smoke_book / "notebooks/figure2.html").as_uri())
    slider = page.locator("figure.parity-circle input").first
    page.locator("figure.parity-circle button").first.focus()
    page.keyboard.press("Tab")
    assert slider.evaluate("e => e === document.activeElement")
    page.keyboard.press("Home")
    assert page.locator("figure.parity-circle output").first.inner_text() == "epoch 0"
    page.close()


def test_jupyter_book_builds_the_clone_itself(tmp_path: Path) -> None:
    """What people try first: pages without outputs, no run, no warning. Writing them is left to the smoke book."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    build = [sys.executable, "-c", JUPYTER_BOOK, "build", ".", "-W", "-n", "--keep-going"]
    build += ["--builder", "custom", "--custom-builder", "dummy"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    doctrees = tmp_path / "_build/.doctrees"
    assert all((doctrees / f"{name}.doctree").is_file() for name in PAGES)


def test_every_claim_is_looked_at_by_a_chapter(smoke_book: Path) -> None:
    rows = read_table(smoke_book.parent, "ledger", "ledger")
    assert set(rows["claim"]) == set(claims())
    assert list(rows.loc[rows["chapter"].isna(), "claim"]) == [], "no chapter decides it or says why not"


def test_every_module_is_in_the_reference(smoke_book: Path) -> None:
    pages = "".join(page.read_text() for page in smoke_book.glob("book/api*.html"))
    for path in (ROOT / "parity_lib").rglob("*.py"):
        place = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert path.stem in ("__init__", "__main__") or f'id="module-{place}"' in pages, place


def test_no_page_knows_where_it_was_built(smoke_book: Path) -> None:
    for path in (*smoke_book.rglob("*.html"), *smoke_book.rglob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text and "/ipykernel_" not in text, path


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_launch_and_download_buttons_lead_to_the_clean_notebook(smoke_book: Path, chapter: str) -> None:
    page = smoke_book / f"{chapter}.html"
    html = page.read_text(encoding="utf-8")
    (link,) = set(re.findall(r'href="(https://mybinder\.org[^"]+)"', html))
    assert unquote(link).endswith(f"/gh/parity-lib/parity-lib/main?urlpath=lab/tree/{chapter}.ipynb")
    assert (ROOT / f"{chapter}.ipynb").is_file()
    download = re.search(r'href="([^"]*_sources/[^"]+\.ipynb)"', html)
    assert download
    given, source = (json.loads(path.read_text()) for path in (page.parent / download[1], ROOT / f"{chapter}.ipynb"))
    assert [[c["cell_type"], "".join(c["source"]), c.get("outputs", [])] for c in given["cells"]] == [
        [c["cell_type"], "".join(c["source"]), []] for c in source["cells"]
    ]


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
        moved = "([picture, first]) => picture.innerHTML !== first"
        visit.page.wait_for_function(moved, arg=[picture.element_handle(), first])
