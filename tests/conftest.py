"""Fixtures of all tests: the smoke book, a browser, a scheduler, and a tiny checkout before and after a build."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pytest
import torch
from checkouts import ROOT, Checkout, make_checkout, parity
from filelock import FileLock
from hypothesis import settings
from playwright.sync_api import Browser, Page, sync_playwright
from xdist.scheduler import LoadScopeScheduling

from parity_lib.build.pdf import FLAGS, chromium
from parity_lib.build.runner import CACHES
from parity_lib.build.workflow import contents

os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / "build" / "numba"))  # compiled once, by the book or by any test
settings.register_profile("any machine", settings.default, deadline=None)  # a busy one is no failure
settings.load_profile("any machine")
matplotlib.use("agg")
torch.set_num_threads(1)  # small tensors: threads only get in each other's way


TOGETHER = re.compile(
    r"tests/(?:build/test_benchmarks|build/test_slurm|chapters/test_certificate|chapters/test_networks|chapters/test_seam)\.py"
    r"|tests/book/test_live\.py"
)
PAGES = contents(ROOT)
PAGE = re.compile(r"(?<=\[)(?:book|notebooks)/[\w/]+(?=[\]-])")
BROWSERS = 4  # parts of the pages; each starts a browser, which takes more than the visit of a page


class Together(LoadScopeScheduling):
    """Tests side by side, each a piece of work of its own, but for those that share what is made once for them.

    They go to one process: a file whose fixture is dear, and the tests of a quarter of the pages, each of which is
    opened once. The mark ``xdist_group`` says the same and is not heard by every pair of versions of pytest and its
    plugin.
    """

    def _split_scope(self, nodeid: str) -> str:
        if (page := PAGE.search(nodeid)) and page[0] in PAGES:
            return f"pages {PAGES.index(page[0]) % BROWSERS}"
        shared = TOGETHER.search(nodeid)
        return shared[0] if shared else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together:
    config.option.loadscopereorder = False  # the order is ours
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One test begins with the smoke book, and those that wait for it come late: meanwhile the others have a core.

    Of the others the builds come first, since they wait for processes more than they compute. Then pages, which wait
    for their browser, and what computes take turns; the benchmarks call loops that the book compiles meanwhile.
    """
    needs = [item for item in items if {"smoke_book", "browser"} & set(getattr(item, "fixturenames", ()))]
    for item in needs:
        item.add_marker(pytest.mark.timeout(1500))  # the whole book may be made in its setup, also on a busy machine
    rest = [item for item in items if item not in set(needs)]
    builds = [item for item in rest if "/build/" in item.path.as_posix() and item.path.stem != "test_benchmarks"]
    parts = needs[1:], [item for item in rest if item not in set(builds)]
    turns = {id(item): place / len(part) for part in parts for place, item in enumerate(part)}
    items[:] = [*needs[:1], *builds, *sorted(itertools.chain(*parts), key=lambda item: turns[id(item)])]


@pytest.fixture(scope="session")
def smoke_book() -> Path:
    """The folder of the book in the smoke profile, brought up to date (at no cost if it is)."""
    with FileLock(ROOT / "build" / "smoke.lock"):  # tests may run side by side
        done = parity("book", "--profile", "smoke", "--cores", "4")  # a larger share, since so much waits for it
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "smoke" / "html"


@pytest.fixture(scope="session")
def toy_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package without torch, for kernels that are to start soon."""
    return make_checkout(tmp_path_factory.mktemp("package")).root


@pytest.fixture(scope="module")  # no longer: its event loop is in the way of others
def browser() -> Iterator[Browser]:
    """Chromium; without one the page tests are skipped, visibly, and fail where CI is set."""
    path = chromium()
    if path is None:
        reason = "the page tests need Chromium, and none is installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One page for many visits: another page in the same tab takes half the time of one in a tab of its own."""
    page = browser.new_page()
    yield page
    page.close()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make_checkout(tmp_path / "a clone with spaces")


@pytest.fixture(scope="session")
def first_build(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, str]:
    """A toy checkout after its first build, in an empty home beside it, and what that build printed."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "toy"  # one for all processes
    root, said = folder / "a clone with spaces", folder / "said.txt"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if not said.exists():
            shutil.rmtree(root, ignore_errors=True)
            home = folder / "home"
            home.mkdir(exist_ok=True)
            done = make_checkout(root).parity("book", "--cores", "2", HOME=str(home), **dict.fromkeys(CACHES, ""))
            assert done.returncode == 0, done.stdout + done.stderr
            said.write_text(done.stdout)
    return Checkout(root), said.read_text()


@pytest.fixture
def built(first_build: tuple[Checkout, str], tmp_path: Path) -> Checkout:
    """An own copy of the built toy checkout."""
    shutil.copytree(first_build[0].root, tmp_path / "built")
    return Checkout(tmp_path / "built")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder that tells Snakemake about the stand-in scheduler; its spool lies inside."""
    if " " in sys.executable:
        pytest.skip("Snakemake's job scripts do not quote the path of Python, and this one holds a space")
    folder = tmp_path / "cluster"
    folder.mkdir()
    call = shlex.join([sys.executable, str(ROOT / "tests/build/scheduler.py"), str(folder / "spool")])
    lines = [
        "executor: cluster-generic",
        f"cluster-generic-submit-cmd: {json.dumps(call + ' submit')}",
        f"cluster-generic-status-cmd: {json.dumps(call + ' status')}",
        "jobs: 4",
        "seconds-between-status-checks: 1",
    ]
    (folder / "config.yaml").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def book_style() -> Iterator[None]:
    """Figures in the style of the book, closed after the test."""
    from matplotlib import pyplot

    from parity_lib.figures.style import use_style

    use_style()
    yield
    pyplot.close("all")


@pytest.fixture(autouse=True)
def compute_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is answered from the store of an earlier run."""
    from parity_lib.chapters import store

    monkeypatch.setattr(store, "enabled", False)
