"""The files that other tools read: pins, Binder, citation, size."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import yaml
from checkouts import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9._!]+)", line) for line in lines]
    assert all(matches), "constraints.txt holds lines other than name==version"
    return {canonicalize_name(m[1]): m[2] for m in matches if m}


def closure(requirements: list[str]) -> set[str]:
    """Every package that the requirements bring, on this platform."""
    found: set[str] = set()
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        extras = requirement.extras or {""}
        key = f"{name}[{','.join(sorted(extras))}]"
        if key not in found:
            found.add(key)
            for text in requires(requirement.name) or []:
                child = Requirement(text)
                marker = child.marker
                if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                    todo.append(child)
    return {key.partition("[")[0] for key in found}


def all_requirements() -> list[str]:
    extras = PROJECT["optional-dependencies"]
    return [*PROJECT["dependencies"], *extras["binder"], *extras["book"], *extras["test"]]


def test_every_package_that_is_needed_is_pinned() -> None:
    assert closure(all_requirements()) <= set(pins())


def test_the_pins_satisfy_the_project_and_fit_every_platform() -> None:
    versions = pins()
    for text in all_requirements():
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), text
    assert versions["torch"] == "2.13.0"


def test_binder_gets_the_same_packages_in_the_same_versions() -> None:
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = dict(entry.split("=") for entry in entries if "=" in entry)
    python = conda.pop("python")
    assert python in PROJECT["requires-python"]
    named = {CONDA_NAMES.get(name, name): version for name, version in conda.items()}
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["binder"]]
    assert set(named) == {Requirement(text).name for text in needed}
    versions = pins()
    for name, version in named.items():
        assert f"{versions[name]}.".startswith(f"{version}."), name


def test_binder_files_are_understood_by_repo2docker() -> None:
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    dockerfile = done.stdout + done.stderr
    assert "environment.yml" in dockerfile and "postBuild" in dockerfile
    assert "--no-deps -e ." in (ROOT / "postBuild").read_text()


def test_the_citation_file_is_valid_and_current() -> None:
    command = [sys.executable, "-m", "cffconvert.cli.cli", "--validate", "-i", "CITATION.cff"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    titles = {work["title"].lower() for work in citation["references"]}  # the works under audit and what they rest on
    listed = (ROOT / "references.bib").read_text().lower()
    assert titles and all(title in listed for title in titles)


def test_no_large_and_no_generated_file_is_kept() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(name) for name in listed.split("\0") if (ROOT / name).is_file() and name]
    assert [path for path in paths if (ROOT / path).stat().st_size > 1_000_000] == []
    assert [path for path in paths if path.parts[0] in ("build", "_build", ".venv")] == []
