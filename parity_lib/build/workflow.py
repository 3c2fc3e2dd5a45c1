"""The build: which notebooks to run with which parameters, what is stale, and the book at the end.

Snakemake (see ``Snakefile``) decides what to run; this module tells it what a chapter depends on,
starts it under a lock that the operating system releases when the build dies, here or on a cluster,
and renders the pages. Everything generated lies below ``build/<profile>/``.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from .parameters import ParameterError, check_parameters, load_notebook, shown, unknown
from .runner import plain, say


class CheckoutError(FileNotFoundError):
    """The command was called where no copy of the repository is to be found."""


class BuildError(RuntimeError):
    """A build that did not finish; the message says what failed and where to look."""


def find_root(start: Path | None = None) -> Path:
    """The checkout that holds the working folder, or else the one the package is installed from."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        if (folder / "Snakefile").is_file() and (folder / "parity_lib").is_dir():
            return folder
    raise CheckoutError(f"no checkout of the book holds {here}: clone the repository and go there")


def find_notebook(root: Path, name: str) -> Path:
    """The notebook of a chapter by its name."""
    return pick("notebook", name, (root / "notebooks").glob("*.ipynb"))


def load_profile(root: Path, profile: str) -> dict[str, dict[str, Any]]:
    """``{notebook: {parameter: value}}`` of a profile, names checked, values as YAML gave them."""
    path = pick("profile", profile, (root / "profiles").glob("*.yml"))
    loaded = read_yaml(path, f"profile {profile}")
    runs = loaded.get("runs") if isinstance(loaded, dict) else None
    if not isinstance(runs, dict) or not runs:
        raise ParameterError(f"profile {profile}: it must map 'runs' to notebooks, got {shown(loaded)}")
    for name, overrides in runs.items():
        try:
            find_notebook(root, str(name))
        except ParameterError as error:
            raise ParameterError(f"profile {profile}: {error}") from None
        if not isinstance(overrides, dict):
            reason = f"{name} must map parameters to values, {{}} for none, got {shown(overrides)}"
            raise ParameterError(f"profile {profile}: {reason}")
    return runs


def check_profile(root: Path, profile: str) -> dict[str, dict[str, Any]]:
    """The profile, after every value of every notebook in it was checked."""
    runs = load_profile(root, profile)
    for name, overrides in runs.items():
        try:
            check_parameters(find_notebook(root, name), overrides)
        except ParameterError as error:
            raise ParameterError(f"profile {profile}: {error}") from None
    return runs


def pick(kind: str, name: str, candidates: Iterable[Path]) -> Path:
    """The file called ``name``, one of those that are there: a name is never read as a path."""
    known = {path.stem: path for path in sorted(candidates)}
    if name not in known:
        raise ParameterError(unknown(kind, name, known))
    return known[name]


def read_yaml(path: Path, what: str) -> Any:
    """Plain values from a YAML file. Nothing in it can run code: only the safe tags of YAML are read."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date is a ValueError
        reason = " ".join(str(error).split())
        raise ParameterError(f"{what}: not YAML ({reason})") from None


def library(root: Path, source: Path) -> list[Path]:
    """The files of ``parity_lib`` that a notebook or module reaches by its imports, and theirs in turn."""
    package = root / "parity_lib"
    exports = _exports(package / "__init__.py")
    known = {path.stem: path for path in sorted(package.glob("*.py")) if path.stem != "__init__"}
    reached: set[str] = set()
    todo = _imported(_code(source), exports, known)
    while todo:
        module = todo.pop()
        if module not in reached and module in known:
            reached.add(module)
            todo |= _imported(known[module].read_text(encoding="utf-8"), exports, known)
    return [package / "__init__.py", *(known[module] for module in sorted(reached))]


def _code(source: Path) -> str:
    """The Python of a notebook or module, without the lines that only IPython understands."""
    if source.suffix == ".py":
        return source.read_text(encoding="utf-8")
    cells = load_notebook(source)["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE)


def _exports(init: Path) -> dict[str, str]:
    """Public name -> module, from the dictionary ``_EXPORTS`` of the package."""
    for node in ast.parse(init.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_EXPORTS":
            exports: dict[str, str] = ast.literal_eval(node.value)
            return exports
    return {}


def _imported(code: str, exports: dict[str, str], known: Iterable[str]) -> set[str]:
    """The modules of ``parity_lib`` that a piece of code names, written in any of Python's ways."""
    modules: set[str] = set()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):  # its own run will say so; until then it may depend on anything
        return set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, module = alias.name.partition(".")
                if package == "parity_lib":
                    modules |= {module} if module else set(exports.values())
        elif isinstance(node, ast.ImportFrom):
            source = f"parity_lib.{node.module or ''}" if node.level else node.module or ""
            package, _, module = source.rstrip(".").partition(".")
            if package == "parity_lib":
                names = {exports.get(alias.name, alias.name) for alias in node.names}
                modules |= {module} if module else names
    return modules


def pages(root: Path) -> list[Path]:
    """The sources of the book besides the notebooks, relative to the root."""
    files = (path for folder in ("book", "reference") for path in (root / folder).rglob("*") if path.is_file())
    written = [path.relative_to(root) for path in files if "__pycache__" not in path.parts]
    return [*sorted(written), Path("_config.yml"), Path("_toc.yml"), Path("references.bib")]


def build_book(root: Path, profile: str, cores: int, cluster: Path | None = None) -> Path:
    """Bring ``build/<profile>`` up to date and return the index page.

    Only what changed is run. A build that was killed is resumed by calling this again.

    Parameters
    ----------
    cores : how many notebooks may run at once on this machine.
    cluster : a folder with Snakemake's ``config.yaml`` for a scheduler, which then takes the place of ``cores``.
    """
    check_profile(root, profile)
    where = executor(cores, cluster)
    build = root / "build" / profile
    with locked(build, f"profile {profile!r}"):
        if cluster is None:  # on a cluster, jobs of a killed build may live on
            shutil.rmtree(build / "tmp", ignore_errors=True)
        (build / "logs" / "book.log").unlink(missing_ok=True)
        finished = False
        try:
            finished = snakemake(root / "Snakefile", build, where)
        finally:
            if not finished:
                _set_aside(build / "html", build / "html.previous")
        if not finished:
            raise BuildError(failures(build))
        shutil.rmtree(build / "html.previous", ignore_errors=True)
    return build / "html" / "index.html"


@contextmanager
def locked(build: Path, what: str) -> Iterator[None]:
    """Hold a build folder alone. The lock dies with its process, so there is nothing to unlock by hand."""
    from filelock import FileLock, Timeout

    logs = build / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(build / ".lock", timeout=0):
            for old in (*logs.glob("*.error.txt"), *logs.glob("*.failed.ipynb")):
                old.unlink()
            yield
    except Timeout:
        raise BuildError(f"another build of {what} is running") from None


def executor(cores: int, cluster: Path | None) -> list[str]:
    """Snakemake's options for this machine, or for the scheduler that ``cluster/config.yaml`` describes."""
    if cluster is None:
        return ["--cores", str(cores)]
    if not (cluster / "config.yaml").is_file():
        raise ParameterError(f"--cluster must be a folder with Snakemake's config.yaml for a scheduler, got {cluster}")
    return ["--profile", str(cluster.absolute())]


def snakemake(snakefile: Path, build: Path, where: list[str]) -> bool:
    """Run a Snakefile in a build folder; jobs speak for themselves, Snakemake's own talk goes to a log."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--directory", str(build)]
    command += ["--nolock", "--rerun-incomplete", "--keep-going", *where]
    root = find_root(snakefile.parent)
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "PARITY_LEAVE_WITH_PARENT": "1"}
    with (build / "logs" / "snakemake.log").open("w") as log:
        return subprocess.run(command, env=environment, stderr=log).returncode == 0


def _set_aside(html: Path, previous: Path) -> None:
    """Keep an older book, but not where it could pass for the one that was asked for."""
    if html.exists():
        shutil.rmtree(previous, ignore_errors=True)
        html.rename(previous)


def failures(build: Path) -> str:
    """One line per failure, for the end of the output."""
    logs = build / "logs"
    lines = []
    for trace in sorted(logs.glob("*.error.txt")):
        sentence = trace.read_text(encoding="utf-8").partition("\n")[0]
        failed = trace.with_name(trace.name.replace(".error.txt", ".failed.ipynb"))
        lines.append(f"{sentence}; see {os.path.relpath(failed if failed.exists() else trace)}")
    if not lines and shutil.disk_usage(build).free < 2**16:
        lines = [f"no space is left on the disk of {os.path.relpath(build)}"]
    if not lines and (logs / "book.log").exists():
        lines = [f"book: the pages did not build; see {os.path.relpath(logs / 'book.log')}"]
    if not lines:
        tail = (logs / "snakemake.log").read_text(encoding="utf-8").strip().splitlines()[-10:]
        lines = [*tail, f"the build stopped; see {os.path.relpath(logs / 'snakemake.log')}"]
    return "\n".join(lines)


def render(root: Path, build: Path) -> int:
    """Turn the executed notebooks of ``build/src`` and the pages into ``build/html``."""
    say("book: started")
    started = time.perf_counter()
    for page in pages(root):
        target = build / "src" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / page, target)
    shutil.rmtree(build / "_build", ignore_errors=True)
    program = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "build", str(build / "src")]
    command += ["--path-output", str(build), "-W", "-n", "--keep-going"]
    log = build / "logs" / "book.log"
    with log.open("w") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT)
    text = plain(log.read_text(encoding="utf-8")).replace(f"{build / 'src'}{os.sep}", "")
    log.write_text(text, encoding="utf-8")
    html = build / "_build" / "html"
    missing = [name for name in _chapters(root) if not (html / f"{name}.html").is_file()]
    if done.returncode != 0 or missing:
        complaints = [line for line in text.splitlines() if re.search("WARNING|ERROR", line)]
        complaints += [f"no page came out for {name}" for name in missing]
        say("\n".join(complaints[:10]))
        return 1
    _set_aside(build / "html", build / "html.previous")  # a book is there as a whole or not at all
    html.rename(build / "html")
    shutil.rmtree(build / "_build")
    say(f"book: done in {time.perf_counter() - started:.1f} s")
    return 0


def _chapters(root: Path) -> list[str]:
    """Every page the table of contents names."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *(page["file"] for part in toc["parts"] for page in part["chapters"])]


if __name__ == "__main__":  # what the Snakefile calls, in the build folder
    sys.exit(render(find_root(), Path.cwd()))
