"""Pictures of every page of a built book, to be looked at: wide, dark and on a phone.

    python tests/book/screenshots.py [build/book/html] [build/screenshots] [part of a page's name]

A page longer than ``TILE`` pixels becomes several pictures. What a picture cannot show is printed: complaints of the
browser, and what sticks out of a phone's screen.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TILE = 2600
LOOKS = {"wide": (1400, "light"), "dark": (1400, "dark"), "phone": (390, "light")}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
OUTSIDE = """() => [...document.querySelectorAll('article *')].filter(e => e.checkVisibility()
    && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('pre, table, .math, svg, .cell_output'))
    .slice(0, 3).map(e => e.tagName + '.' + e.className)"""


def look(page: Page, path: Path, folder: Path, name: str) -> None:
    """Every tile of one page in one look, as ``folder/name-1.png`` and so on."""
    page.goto(path.as_uri(), wait_until="load")
    page.add_style_tag(content="* { transition: none !important; }")  # nothing is caught on its way
    page.wait_for_timeout(900)
    height = page.evaluate("document.documentElement.scrollHeight")
    width = (page.viewport_size or {})["width"]
    for number, top in enumerate(range(0, height, TILE), 1):
        clip = {"x": 0, "y": top, "width": width, "height": min(TILE, height - top)}
        page.screenshot(path=folder / f"{name}-{number}.png", full_page=True, clip=clip)
    if outside := page.evaluate(OUTSIDE):
        print(f"{folder.name} {name}: outside the screen: {', '.join(outside)}")


def main(html: Path, target: Path, part: str = "") -> None:
    """Take all pictures."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    folders = (html / "book", html / "notebooks")
    pages = [path for folder in folders for path in sorted(folder.rglob("*.html")) if "api" not in path.stem]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for look_name, (width, scheme) in LOOKS.items():
            folder = target / look_name
            folder.mkdir(parents=True, exist_ok=True)
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda m: print(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: print(f"error: {error}"))
            for path in pages:
                if part in path.stem:
                    look(page, path, folder, path.stem if path.parent.name != "dossier" else f"dossier-{path.stem}")
            page.close()
        browser.close()


if __name__ == "__main__":
    given = sys.argv[1:] + ["build/book/html", "build/screenshots", ""][len(sys.argv) - 1 :]
    main((ROOT / given[0]).resolve(), ROOT / given[1], given[2])
