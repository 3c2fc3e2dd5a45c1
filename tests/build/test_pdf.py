"""The whole book as one PDF."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from checkouts import ROOT

from parity_lib.build import pdf
from parity_lib.build.workflow import BuildError

PAGE = """<html lang="de" data-theme="dark"><head><title>T</title>
<script src="../_static/other.js"></script><script src="../_static/mathjax/tex.js"></script>
<link rel="stylesheet" href="../_static/book.css"></head><body><nav>menu</nav>
<article class="bd-article"><h1 id="top">{title}</h1><p><a href="b.html#top">other</a> <a href="#top">here</a>
<a href="https://example.org/x">away</a> <img src="../_images/a.png"></p>
<svg class="wide"><use xlink:href="#glyph"/></svg><svg class="narrow"><g/></svg><script src="../live.js"></script>
</article><footer>foot</footer></body></html>"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a built book of two pages and one of the library."""
    html = tmp_path / "build/book/html"
    for name, title in (("book/a", "First"), ("notebooks/b", "Second"), ("book/api", "Library")):
        (html / name).parent.mkdir(parents=True, exist_ok=True)
        (html / f"{name}.html").write_text(PAGE.replace("b.html", "../notebooks/b.html").format(title=title))
    (html / "_static").mkdir()
    shutil.copyfile(ROOT / "book/_static/book.css", html / "_static/book.css")
    (tmp_path / "build/book/html.json").write_text("{}")
    monkeypatch.setattr(pdf, "contents", lambda root: ["book/a", "notebooks/b", "book/api"])
    return tmp_path


def test_pages_follow_each_other_and_their_links_stay_inside(checkout: Path) -> None:
    html = checkout / "build/book/html"
    whole = pdf.one_page(html, ["book/a", "notebooks/b"])
    assert whole.index("First") < whole.index("Second") and "menu" not in whole and "foot" not in whole
    idents = re.findall(r'\bid="([^"]+)"', whole)
    assert len(idents) == len(set(idents)) == 4  # two pages, two headings
    inside = re.findall(r'<a href="#([^"]+)"', whole)
    assert len(inside) == 4 and set(inside) <= set(idents)
    assert 'src="_images/a.png"' in whole and 'href="_static/book.css"' in whole and "https://example.org/x" in whole
    assert "mathjax" in whole and "other.js" not in whole and "live.js" not in whole and 'class="narrow"' not in whole
    assert 'data-theme="light"' in whole


@pytest.mark.skipif(shutil.which("chromium") is None, reason="a PDF is printed by Chromium, and none is installed")
def test_the_book_is_printed_without_the_pages_of_the_library(checkout: Path) -> None:
    printed = pdf.print_book(checkout, "book").read_bytes()
    assert printed.startswith(b"%PDF") and printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") == 2
    assert not (checkout / "build/book/html/print.html").exists()


def test_without_a_browser_or_a_book_one_sentence_says_so(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "build/book/html.json").unlink()
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(BuildError, match="build it first"):
        pdf.print_book(checkout, "book")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match="none is installed"):
        pdf.print_book(checkout, "book")


def test_the_browser_keeps_its_profile_below_the_build(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def browser(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        place = next(part.partition("=")[2] for part in command if part.startswith("--user-data-dir="))
        assert Path(place).is_dir() and Path(place).parent == checkout / "build/book"
        (checkout / "build/book/book.pdf").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(pdf, "chromium", lambda: "chromium")
    monkeypatch.setattr(subprocess, "run", browser)
    pdf.print_book(checkout, "book")
    assert not list((checkout / "build/book").glob(".chromium-*"))
