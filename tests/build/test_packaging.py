"""The files that other tools read: pins, Binder, container, workflows, citation, size."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Literal

import pytest
import yaml
from checkouts import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


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
    return [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]


def test_make_installs_every_extra() -> None:
    chosen = re.search(r"-e '\.\[(.+)\]'", (ROOT / "Makefile").read_text())
    assert chosen and set(chosen[1].split(",")) == set(PROJECT["optional-dependencies"])


def test_every_package_that_is_needed_is_pinned() -> None:
    assert closure(all_requirements()) <= set(pins())


def test_the_pins_satisfy_the_project_and_fit_every_platform() -> None:
    versions = pins()
    for text in all_requirements():
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), text
    assert versions["torch"] == "2.13.0"


def test_conda_brings_python_and_torch_and_pip_the_pins() -> None:
    python, pip, *rest = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert python == f"python={PROJECT['requires-python'].removeprefix('>=')}" and pip == "pip"
    brought = dict(entry.split("=") for entry in rest)
    assert set(brought) == {"pytorch-cpu", "pandas", "seaborn"}
    assert all(pins()[name.removeprefix("py").removesuffix("-cpu")] == found for name, found in brought.items())  # so
    # that pip then finds them in place
    script = (ROOT / "postBuild").read_text()
    assert "PIP_CONSTRAINT=constraints.txt" in script and "-e '.[binder]'" in script and "--extra-index" not in script


def test_binder_files_are_understood_by_repo2docker() -> None:
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    dockerfile = done.stdout + done.stderr
    assert "environment.yml" in dockerfile and "postBuild" in dockerfile
    assert os.access(ROOT / "postBuild", os.X_OK)


def test_the_container_is_that_of_binder_and_both_open_a_notebook_that_is_there() -> None:
    lines = (ROOT / ".devcontainer/devcontainer.json").read_text().splitlines()
    container = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    assert {"environment.yml", "postBuild"} <= set(container["onCreateCommand"].split())
    name = yaml.safe_load((ROOT / "environment.yml").read_text())["name"]  # never base, whose Python is the image's
    assert "env create" in container["onCreateCommand"] and f"--name {name} " in container["onCreateCommand"]
    chosen = container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert chosen == f"/opt/conda/envs/{name}/bin/python"
    opened = container["customizations"]["codespaces"]["openFiles"]
    assert all((ROOT / notebook).is_file() for notebook in opened)
    assert f'"/lab/tree/{opened[0]}"' in (ROOT / "jupyter_lab_config.py").read_text()
    assert all("etc/jupyter" in (ROOT / name).read_text() for name in ("postBuild", "Makefile"))  # where Jupyter looks


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_actions_by_commit_and_may_write_only_where_it_runs_nothing_of_ours(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)  # (\S+)", text)
    assert len(used) == text.count("uses: ")
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action, _ in used)
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", release) for _, release in used)
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        may_write = "write" in job.get("permissions", {}).values()
        assert not may_write or all("run" not in step for step in job["steps"])


def test_the_workflow_tries_every_python() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=lambda name: name.replace("_", "-"))


class _Person(_Strict):
    family_names: str
    given_names: str


class _Entity(_Strict):
    name: str


class _Work(_Strict):
    """A reference in the Citation File Format 1.2.0, as far as ours go."""

    type: Literal["article", "conference-paper", "software-code"]
    title: str
    authors: list[_Person | _Entity] = Field(min_length=1)
    year: int | None = None
    doi: str | None = Field(None, pattern=r"^10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;\-\.\(\)\[\]\\]+$")
    url: str | None = Field(None, pattern="^https://")
    repository_code: str | None = Field(None, pattern="^https://")


class _Citation(_Strict):
    cff_version: Literal["1.2.0"]
    message: str
    title: str
    type: Literal["software"]
    authors: list[_Person | _Entity] = Field(min_length=1)
    version: str
    license: Literal["MIT"]
    repository_code: str = Field(pattern="^https://")
    keywords: list[str] = Field(min_length=1)
    references: list[_Work] = Field(min_length=1)


def test_the_citation_file_is_valid_and_current() -> None:
    citation = _Citation.model_validate(yaml.safe_load((ROOT / "CITATION.cff").read_text()))
    assert citation.version == PROJECT["version"]
    listed = (ROOT / "references.bib").read_text().lower()  # the works under audit and what they rest on
    assert all(work.title.lower() in listed for work in citation.references)


def test_no_large_and_no_generated_file_is_kept() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [Path(name) for name in listed.split("\0") if (ROOT / name).is_file() and name]
    assert [path for path in paths if (ROOT / path).stat().st_size > 1_000_000] == []
    assert [path for path in paths if path.parts[0] in ("build", "_build", ".venv")] == []


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call make as a person does, also where the tests themselves run below make."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], cwd=folder, env=outer, capture_output=True, text=True)


def stamp(folder: Path) -> str:
    return Path(make(folder, "--eval=stamp: ; @echo $(STAMP)", "stamp").stdout.strip()).name


def test_the_environment_is_made_again_when_what_it_is_made_from_has_other_content(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "Makefile"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    first = stamp(tmp_path)
    assert re.fullmatch(r"\.installed-\d+", first)
    assert "-m venv --clear" in make(tmp_path, "--dry-run", "lint").stdout
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / first).touch()
    assert "-m venv" not in make(tmp_path, "--dry-run", "lint").stdout
    with (tmp_path / "constraints.txt").open("a") as file:
        file.write("other==1\n")
    os.utime(tmp_path / "constraints.txt", (0, 0))
    assert stamp(tmp_path) != first
    assert "-m venv --clear" in make(tmp_path, "--dry-run", "lint").stdout


def test_a_damaged_environment_is_one_sentence(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt", "Makefile"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / stamp(tmp_path)).touch()
    os.utime(tmp_path / "constraints.txt")  # newer, and the same
    done = make(tmp_path, "book")
    assert done.returncode == 2 and done.stderr.startswith(".venv is damaged: say make clean, then the same again\n")
