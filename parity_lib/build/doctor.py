"""``parity doctor``: what this machine has and lacks for the book, one line each, and what to do about it."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from . import PUBLISHED
from .pdf import chromium
from .workflow import check_profile, stale

NEEDED_GB = 2.0


@dataclass(frozen=True)
class Finding:
    """One line: about what, what was found, and what to do where something is amiss."""

    about: str
    found: str
    remedy: str = ""
    needed: bool = True
    """Whether the book cannot be built without the remedy."""

    @property
    def bad(self) -> bool:
        """Whether it stands in the way of the book."""
        return self.needed and bool(self.remedy)

    def __str__(self) -> str:
        mark = "!" if self.bad else "-" if self.remedy else "+"
        return f"{mark} {self.about}: {self.found}" + (f"; {self.remedy}" if self.remedy else "")


def examine(root: Path) -> Iterator[Finding]:
    """Everything worth knowing, the quick first."""
    old = sys.version_info < (3, 11)
    yield Finding("python", platform.python_version(), "3.11 or newer is needed: make PYTHON=python3.11" if old else "")
    yield versions(root / "constraints.txt")
    yield disk(root)
    for tool, use in (("make", "make book"), ("git", "the commit in a run's record")):
        there = shutil.which(tool)
        yield Finding(tool, there or "not found", "" if there else f"install it for {use}", needed=False)
    browser = chromium()
    lacking = "install it, or tests of pages are skipped"
    yield Finding("chromium", browser or "not found", "" if browser else lacking, needed=False)
    yield Finding("scheduler", ", ".join(executors()) or "no executor plugin", needed=False)
    yield device()
    yield book(root)


def versions(constraints: Path) -> Finding:
    """Installed versions against the pins."""
    pins = dict(re.findall(r"^([\w.-]+)==([\w.!+]+)", constraints.read_text(encoding="utf-8"), re.MULTILINE))
    missing, other = [], []
    for name, pin in pins.items():
        try:
            found = version(name).partition("+")[0]  # torch's build is no other version
        except PackageNotFoundError:
            missing.append(name)
        else:
            other += [f"{name} {found} instead of {pin}"] if found != pin else []
    if not missing and not other:
        return Finding("versions", f"all {len(pins)} as pinned")
    counts = [f"{len(some)} {how}" for some, how in ((missing, "not installed"), (other, "not as pinned")) if some]
    found = f"{' and '.join(counts)} of {len(pins)}, such as {[*other, *missing][0]}"
    lacking = [name for name in missing if name in ("torch", "snakemake", "jupyter-book", "papermill")]
    return Finding("versions", found, "for the tested ones: make clean, make book", needed=bool(lacking))


def disk(root: Path) -> Finding:
    """Room for a build, and leave to write there."""
    free = shutil.disk_usage(root).free / 1e9
    if not os.access(root / "build" if (root / "build").exists() else root, os.W_OK):
        return Finding("disk", f"{root / 'build'} cannot be written", "choose another checkout")
    return Finding("disk", f"{free:.0f} GB free", "" if free > NEEDED_GB else f"a build wants {NEEDED_GB:g} GB")


def executors() -> list[str]:
    """The schedulers that ``--cluster`` can use here."""
    names = ("slurm", "lsf", "cluster-generic", "kubernetes", "htcondor", "flux", "drmaa")
    return [name for name in names if find_spec(f"snakemake_executor_plugin_{name.replace('-', '_')}")]


def device() -> Finding:
    """torch, and where it can compute."""
    if find_spec("torch") is None:
        return Finding("torch", "not installed", "make book installs it")
    import torch

    if torch.cuda.is_available():
        return Finding("torch", f"{torch.__version__}, {torch.cuda.get_device_name()}: -p device cuda")
    return Finding("torch", f"{torch.__version__} on the CPU, as the published book")


def book(root: Path) -> Finding:
    """Whether the published book is built and up to date."""
    build = root / "build" / PUBLISHED
    if not (build / "records").is_dir():
        return Finding("book", "not built yet", "make book", needed=False)
    reasons = stale(root, check_profile(root, PUBLISHED), build)
    if not reasons:
        return Finding("book", f"up to date, {os.path.relpath(build / 'html' / 'index.html')}")
    return Finding("book", f"{len(reasons)} parts are not up to date", "parity book --dry-run says why", needed=False)
