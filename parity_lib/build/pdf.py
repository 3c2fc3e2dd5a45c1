"""The whole book as one PDF: all pages in order on one long page, printed by Chromium with the book's print style.

The pages of the library are left out; they are long, and made for looking things up. Links between pages become
links inside the PDF.
"""

import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .workflow import BuildError, contents

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
PATIENCE = 600_000  # milliseconds of the page's own clock, for its formulas


def chromium() -> str | None:
    """Chromium, or a browser of its kind, if one is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def print_book(root: Path, profile: str) -> Path:
    """Print the built book of a profile and return the PDF, beside its pages."""
    build, browser = root / "build" / profile, chromium()
    if browser is None:
        raise BuildError("a PDF is printed by Chromium, and none is installed: for Debian and Ubuntu, apt install chromium")
    if not (build / "html.json").is_file():
        raise BuildError(f"there is no book in {os.path.relpath(build)}: build it first, with `make book`")
    html = build / "html"
    page, target = html / "print.html", build / "book.pdf"
    page.write_text(one_page(html, [name for name in contents(root) if not name.startswith("book/api")]), encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory(prefix=".chromium-", dir=build) as profile_folder:
            command = [browser, *FLAGS, f"--user-data-dir={profile_folder}", f"--virtual-time-budget={PATIENCE}"]
            command += ["--allow-file-access-from-files", "--generate-pdf-document-outline"]
            command += ["--no-pdf-header-footer", f"--print-to-pdf={target}"]
            done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=1800)
    finally:
        page.unlink()
    if done.returncode != 0 or not target.is_file():
        raise BuildError(f"Chromium did not print the book: {done.stderr.strip().splitlines()[-1:]}")
    return target


def one_page(html: Path, names: list[str]) -> str:
    """The articles of the pages, one after the other, in the head of the first."""
    first = (html / f"{names[0]}.html").read_text(encoding="utf-8")
    head = first[: first.index("<body")]
    head = re.sub(r"<html[^>]*>", '<html lang="en" data-theme="light" data-mode="light">', head)
    # the theme's own scripts find nothing to do here; MathJax does
    head = re.sub(r"<script(?![^>]*mathjax)[^>]*src=[^>]*></script>", "", head)
    head = _moved(head, names[0], names)
    head += '<script>addEventListener("DOMContentLoaded", () => {for (const d of document.querySelectorAll("details")) '
    head += "d.open = !d.matches(\".hide, .page-parameters\");});</script>"
    parts = [_article(html, name, names) for name in names]
    return f'{head}<body class="whole-book">{"".join(parts)}</body></html>'


def _article(html: Path, name: str, names: list[str]) -> str:
    """One page without what surrounds it, and with names and links that hold in the whole book."""
    text = (html / f"{name}.html").read_text(encoding="utf-8")
    article = text[text.index('<article class="bd-article"') : text.index("</article>") + len("</article>")]
    article = re.sub(r'<script[^>]*\bsrc=.*?</script>|<svg class="narrow".*?</svg>', "", article, flags=re.DOTALL)
    article = re.sub(r'\bid="(?!circle-)([^"]+)"', lambda found: f'id="{_ident(name, found[1])}"', article)
    article = re.sub(r"(url\(#|xlink:href=\"#)", rf"\g<1>{_ident(name, '')}", article)
    return f'<section id="{_ident(name, "")}">{_moved(article, name, names)}</section>'


def _moved(text: str, name: str, names: list[str]) -> str:
    """The addresses of a page as they are from the root of the book; pages of the book as places in it."""

    def moved(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        if re.match(r"[a-z]+:", target):
            return found[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) if target else f"{name}.html"
        page = place.removesuffix(".html")
        if page in names and place.endswith(".html"):
            return f'{found[1]}="#{_ident(page, anchor)}"'
        return f'{found[1]}="{place}{"#" + anchor if anchor else ""}"'

    return re.sub(r'(?<!xlink:)\b(href|src)="([^"]*)"', moved, text)


def _ident(page: str, name: str) -> str:
    return f"{page.replace('/', '-')}--{name}"
