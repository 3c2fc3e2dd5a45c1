"""Fixtures of all tests: the built quick book, and a tiny checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkouts import ROOT, Checkout, make_checkout, parity


@pytest.fixture(scope="session")
def quick_book() -> Path:
    """The folder of the quick book, brought up to date (at no cost if it is)."""
    done = parity("book")
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "quick" / "html"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path / "a clone with spaces")
