"""The build: which notebooks to run with which parameters, what is stale, and the book at the end.

What is up to date is decided here, by content: a chapter's record holds a key of all that its run depends on and the
checksums of what it published, and the pages have the like. What is missing, altered or of another key is taken away;
Snakemake (see ``Snakefile``) then makes what is not there, here or on a cluster. A lock that the operating system
releases when the build dies keeps two builds apart. Everything generated lies below ``build/<profile>/``.
"""

import hashlib
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from ..evidence import write_json
from .display import say
from .display import shown as progress_of
from .parameters import ParameterError, about, check_parameters, load_notebook, require, shown
from .results import LEDGER, ResultsError, checksum, read_json, read_record, read_yaml
from .runner import plain, variables

VANISHED = "its job ended and left no reason; most often that is a kill, for want of memory or time"
NAME = re.compile(r"[A-Za-z0-9][\w-]*")
RESERVED = {"run", "race", "studies", "store", "cache", "ipython", "jupyter", "matplotlib", "numba", "lib", "tmp"}
"""Names below ``build/`` that are for something else than a profile."""
ADDRESS = "https://github.com/parity-lib/parity-lib"
JUPYTER_BOOK = "import gc, sys; gc.set_threshold(200_000, 20, 100); from jupyter_book.cli.main import main; sys.exit(main())"
"""Sphinx keeps nearly all that it makes, and looking for garbage as often as usual takes a fifth of its time."""


class CheckoutError(FileNotFoundError):
    """The command was called where no copy of the repository is to be found."""


class BuildError(RuntimeError):
    """A build that did not finish; the message says what failed and where to look."""


def find_root(start: Path | None = None) -> Path:
    """The checkout that holds the working folder, or else the one the package is installed from."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "parity_lib").is_dir():
            return folder
    raise CheckoutError(f"no checkout of the book holds {here}: git clone {ADDRESS} and go there")


def find_notebook(root: Path, name: str) -> Path:
    """The notebook of a chapter by its name."""
    return pick("notebook", name, (root / "notebooks").glob("*.ipynb"))


def load_profile(root: Path, profile: str) -> dict[str, dict[str, Any]]:
    """``{notebook: {parameter: value}}`` of a profile, names checked, values as YAML gave them."""
    path = pick("profile", profile, (root / "profiles").glob("*.yml"))
    with about(f"profile {profile}"):
        if profile.lower() in RESERVED:
            raise ValueError(f"build/{profile} is for something else, choose another name")
        loaded = read_yaml(path)
        runs = loaded.get("runs") if isinstance(loaded, dict) else None
        if not isinstance(runs, dict) or not runs:
            raise ValueError(f"it must map 'runs' to notebooks, got {shown(loaded)}")
        for name, overrides in runs.items():
            find_notebook(root, str(name))
            if not isinstance(overrides, dict):
                raise ValueError(f"{name} must map parameters to values, {{}} for none, got {shown(overrides)}")
    return runs


def check_profile(root: Path, profile: str) -> dict[str, dict[str, Any]]:
    """The values of every parameter of every notebook of a profile; it must name all chapters of the book."""
    runs = load_profile(root, profile)
    with about(f"profile {profile}"):
        for page in contents(root):
            if page.startswith("notebooks/") and Path(page).name not in runs:
                raise ValueError(f"it must name every chapter of the book, not without {Path(page).name}")
        return {name: check_parameters(find_notebook(root, name), overrides) for name, overrides in runs.items()}


def pick(kind: str, name: str, candidates: Iterable[Path]) -> Path:
    """The file called ``name``, one of those that are there: a name is never read as a path."""
    known = named(candidates)
    require(kind, name, known)
    return known[name]


def named(candidates: Iterable[Path]) -> dict[str, Path]:
    """The files among them by their names, without those that are called what no name may be."""
    return {path.stem: path for path in sorted(candidates) if path.is_file() and NAME.fullmatch(path.stem)}


def library(root: Path, source: Path) -> list[Path]:
    """The files of the package that a notebook or module reaches by its imports, and theirs in turn."""
    finder = ModuleFinder([str(root)])  # what is not in the checkout is not followed
    try:
        finder.load_module("__main__", io.StringIO(_code(source)), str(source), ("", "r", 1))  # type: ignore[arg-type]
    except (SyntaxError, ValueError):  # its own run will say so; until then it may depend on anything
        return sorted((root / "parity_lib").rglob("*.py"))
    finder.modules.pop("__main__")
    places = (getattr(module, "__file__", None) for module in finder.modules.values())
    return sorted(Path(place) for place in places if place)


def _code(source: Path) -> str:
    """The Python of a notebook or module, without the lines that only IPython understands."""
    if source.suffix == ".py":
        return f"import {'.'.join(source.with_suffix('').parts[source.parts.index('parity_lib'):])}"
    cells = load_notebook(source)["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE)


def digest(root: Path, files: Iterable[Path], *more: Any) -> str:
    """A key of the contents of files, by their places in the checkout, and of plain values."""
    parts = [(os.path.relpath(path, root), checksum(path)) for path in files]
    return hashlib.sha256(json.dumps([parts, *more], sort_keys=True).encode()).hexdigest()


def key_of(root: Path, notebook: Path, values: Mapping[str, Any], build: Path) -> str:
    """What a run depends on: the notebook, the code that it reaches, its parameters and the pinned versions."""
    files = [root / "notebooks" / notebook.name, root / "constraints.txt", *library(root, notebook)]
    folders = sorted({path.parent for path in files[2:]})
    files += [page for folder in folders for page in sorted(folder.glob("*.html"))]  # what modules read beside them
    if root / "parity_lib" / "build" / "claims.py" in files:
        files.append(root / "book" / "claims.yml")
    if root / "parity_lib" / "chapters" / "sensitivity.py" in files:
        files += sorted((root / "reference" / "studies").glob("*.csv"))
    if notebook.stem == LEDGER:
        files += sorted((root / "notebooks").glob("*.ipynb"))  # it shows their titles
        files += sorted(path for path in (build / "results").glob("*.json") if path.stem != LEDGER)
    return digest(root, files, dict(values))


def pages(root: Path) -> list[Path]:
    """The sources of the book besides the notebooks, relative to the root."""
    files = (path for folder in ("book", "reference") for path in (root / folder).rglob("*") if path.is_file())
    written = [path.relative_to(root) for path in files if "__pycache__" not in path.parts]
    return [*sorted(written), Path("_config.yml"), Path("_toc.yml"), Path("references.bib")]


def contents(root: Path) -> list[str]:
    """Every page that the table of contents names."""
    with about("_toc.yml"):
        toc = read_yaml(root / "_toc.yml")

    def files(entry: Any) -> Iterator[str]:
        if isinstance(entry, dict):
            yield from (entry[key] for key in ("root", "file") if key in entry)
        for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []:
            yield from files(part)

    return list(files(toc))


def stale(root: Path, profile: Mapping[str, Mapping[str, Any]], build: Path) -> dict[str, str]:
    """Why a chapter is to be run, by name, and under ``""`` why the pages are to be made; nothing if all is there."""
    reasons = {name: why for name, values in profile.items() if (why := _stale_chapter(root, name, values, build))}
    if not reasons:
        try:
            made = read_json(build / "html.json")
            lost = [place for place, found in made["files"].items() if checksum(build / "html" / place) != found]
            why = "the sources changed" if made["key"] != pages_key(root, profile, build) else ""
            why = why or (f"{lost[0]} is missing or was changed" if lost else "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            why = "they are not there"
        reasons |= {"": why} if why else {}
    return reasons


def _stale_chapter(root: Path, name: str, values: Mapping[str, Any], build: Path) -> str:
    try:
        record = read_record(build, name)
    except ResultsError:
        return "it was not run, or not to its end"
    lost = [place for place, found in record.products.items() if checksum(build / place) != found]
    if lost or not record.products:
        return f"{(lost or ['its page'])[0]} is missing or was changed"
    key = key_of(root, root / "notebooks" / f"{name}.ipynb", values, build)
    return "" if record.key == key else "its sources changed"


def pages_key(root: Path, chapters: Iterable[str], build: Path) -> str:
    """What the pages depend on: their sources, the code (for the pages of the library) and the runs."""
    code = sorted(path for kind in ("*.py", "*.html") for path in (root / "parity_lib").rglob(kind))
    records = [build / "records" / f"{name}.json" for name in chapters]
    return digest(root, [*(root / page for page in pages(root)), *code, root / "constraints.txt", *records])


def build_book(root: Path, profile: str, cores: int, cluster: Path | None = None) -> Path:
    """Bring ``build/<profile>`` up to date and return the index page.

    Only what changed is run, ``cores`` notebooks at once on this machine, or as jobs of the scheduler that
    ``cluster/config.yaml`` describes. A build that was killed is resumed by calling this again.
    """
    values = check_profile(root, profile)
    where = executor(cores, cluster)
    build = root / "build" / profile
    with locked(build, f"profile {profile!r}"):
        if cluster is None:  # on a cluster, jobs of a killed build may live on
            shutil.rmtree(build / "tmp", ignore_errors=True)
        reasons = stale(root, values, build)
        if not reasons:
            return build / "html" / "index.html"
        missing = [name for name in reasons if name]
        for name in missing:
            (build / "records" / f"{name}.json").unlink(missing_ok=True)
        for kept in build.glob("records/*.json"):
            kept.touch()  # Snakemake refuses pages that are older than they, as after a clock was set back
        (build / "html.json").unlink(missing_ok=True)
        (build / "logs" / "book.log").unlink(missing_ok=True)

        def told(name: str, left: int) -> str:
            done = f"{len(missing) - left} of {len(missing)}"
            return f"{name}: done in {read_record(build, name).seconds:.1f} s, {done}"

        try:
            snakemake(root / "Snakefile", build, where, arrivals(missing, told))
        except BaseException:
            _set_aside(build)
            raise
        shutil.rmtree(build / "html.previous", ignore_errors=True)
    return build / "html" / "index.html"


@contextmanager
def locked(build: Path, what: str, part: str = "") -> Iterator[None]:
    """Hold a build folder, or a part of it, alone. The lock dies with its process: there is nothing to unlock."""
    from filelock import FileLock, Timeout

    logs = build / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(build / f".{part}lock", timeout=0):
            for old in (*logs.glob(f"{part or '*'}.error.txt"), *logs.glob(f"{part or '*'}.failed.ipynb")):
                old.unlink()
            yield
    except Timeout:
        raise BuildError(f"another build of {what} is running") from None


def executor(cores: int, cluster: Path | None) -> list[str]:
    """Snakemake's options for this machine, or for the scheduler that ``cluster/config.yaml`` describes."""
    if find_spec("snakemake") is None:
        raise ParameterError("Snakemake is not installed, which runs the builds: pip install -c constraints.txt '.[book]'")
    if cluster is None:
        return ["--cores", str(cores), "--profile", "none"]  # nor that of SNAKEMAKE_PROFILE, as on a cluster's front end
    if not (cluster / "config.yaml").is_file():
        raise ParameterError(f"--cluster must be a folder with Snakemake's config.yaml for a scheduler, got {cluster}")
    with about(f"{cluster / 'config.yaml'}"):
        described = read_yaml(cluster / "config.yaml")
    name = described.get("executor") if isinstance(described, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise ParameterError(f"{cluster / 'config.yaml'} must name an executor, such as slurm, got {shown(name)}")
    plugin = f"snakemake-executor-plugin-{name}"
    if name not in ("local", "dryrun", "touch") and find_spec(plugin.replace("-", "_")) is None:
        raise ParameterError(f"the executor {name} is not installed: pip install {plugin}")
    return ["--profile", str(cluster.absolute())]


def shortest_first(root: Path, runs: Iterable[str]) -> list[str]:
    """The chapters by how long they took in the reference run; those that are not in it come last."""
    seconds = dict.fromkeys(runs, math.inf)
    for name in seconds:
        with suppress(ResultsError):
            seconds[name] = read_record(root / "reference", name).seconds
    return sorted(seconds, key=lambda name: seconds[name])


def snakemake(snakefile: Path, build: Path, where: list[str], news: Callable[[], Iterable[str]]) -> None:
    """Make what is not there; jobs speak for themselves, Snakemake's own talk goes to a log.

    On a cluster jobs speak into the scheduler's logs: there ``news`` says now and then what has arrived.
    """
    here = "--cores" in where
    shutil.rmtree(build / ".snakemake", ignore_errors=True)  # its bookkeeping: what is there, is whole
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--directory", str(build)]
    command += ["--nolock", "--drop-metadata", "--rerun-triggers", "input", "--keep-going", "--workflow-profile", "none"]
    command += where
    environment = os.environ | variables(find_root(snakefile.parent)) | {"PARITY_LEAVE_WITH_PARENT": "1"}
    if here:  # and not on nodes with disks of their own: what a kill leaves, the next build clears
        (build / "tmp").mkdir(exist_ok=True)
        environment["TMPDIR"] = str(build / "tmp")
    with (build / "logs" / "snakemake.log").open("w") as log, progress_of(build / "tmp", news=tuple if here else news):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            say(line.rstrip("\n"))
        status = process.wait()
    if here:
        shutil.rmtree(build / "tmp", ignore_errors=True)
    if status != 0:
        raise BuildError(failures(build))


def arrivals(awaited: Iterable[str], tell: Callable[[str, int], str]) -> Callable[[], Iterator[str]]:
    """A function that tells what has come in since it was last asked: ``tell(name, how many are still awaited)``."""
    waiting = list(awaited)

    def news() -> Iterator[str]:
        for name in tuple(waiting):
            with suppress(ResultsError, BuildError):  # it is not there, or not yet whole on a slow file system
                told = tell(name, len(waiting) - 1)
                waiting.remove(name)
                yield told

    return news


def _set_aside(build: Path) -> None:
    """Keep an older book, but not where it could pass for the one that was asked for."""
    if (build / "html").exists():
        shutil.rmtree(build / "html.previous", ignore_errors=True)
        (build / "html").rename(build / "html.previous")


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
        log = logs / "snakemake.log"
        lines = [*_last_words(plain(log.read_text("utf-8", errors="replace"))), f"the build stopped; see {os.path.relpath(log)}"]
    return "\n".join(lines)


def _last_words(talk: str) -> list[str]:
    """What Snakemake's log says at the end: a scheduler's refusal, or else which job vanished, or else its last lines."""
    said = re.findall(r"[\w./-]+: (?:error|fatal): .+", talk, re.IGNORECASE)  # as sbatch, qsub and bsub say it
    said += re.findall(r"^\S.+(?=\n\[.+\]\nError in rule .+\n.+Error submitting)", talk, re.MULTILINE)  # or a shell
    said += re.findall(r"Error submitting jobscript.*?\)", talk)
    refused = list(dict.fromkeys(map(str.strip, said)))
    jobs = re.findall(r"Error in rule \S+:.*?output: \w+/([\w-]+)", talk, re.DOTALL)
    vanished = [] if "Traceback" in talk else [f"{job}: {VANISHED}" for job in dict.fromkeys(jobs)]
    return refused[:3] or vanished[:3] or talk.strip().splitlines()[-10:]


def render(root: Path, build: Path) -> int:
    """Turn the executed notebooks of ``build/src`` and the pages into ``build/html``."""
    say("book: started")
    started = time.perf_counter()
    chapters = sorted(path.stem for path in (build / "records").glob("*.json"))
    key = pages_key(root, load_profile(root, build.name), build)
    for stray in (path for path in (build / "src").glob("*/*.ipynb") if path.stem not in chapters):
        stray.unlink()
    for page in pages(root):
        target = build / "src" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / page, target)
    shutil.rmtree(build / "_build", ignore_errors=True)
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", str(build / "src")]
    command += ["--path-output", str(build), "-W", "-n", "--keep-going"]
    log = build / "logs" / "book.log"
    with log.open("w") as stream:
        done = subprocess.run(command, env=os.environ | variables(root), stdout=stream, stderr=subprocess.STDOUT)
    text = plain(log.read_text(encoding="utf-8")).replace(f"{build / 'src'}{os.sep}", "")
    log.write_text(text, encoding="utf-8")
    html = build / "_build" / "html"
    missing = [name for name in contents(root) if not (html / f"{name}.html").is_file()]
    if done.returncode != 0 or missing:
        complaints = [line for line in text.splitlines() if re.search("WARNING|ERROR", line)]
        complaints += [f"no page came out for {name}" for name in missing]
        say("\n".join(complaints[:10]))
        return 1
    files = {str(path.relative_to(html)): checksum(path) for path in sorted(html.rglob("*")) if path.is_file()}
    _set_aside(build)  # a book is there as a whole or not at all
    html.rename(build / "html")
    shutil.rmtree(build / "_build")
    write_json(build / "html.json", {"key": key, "files": files})
    say(f"book: done in {time.perf_counter() - started:.1f} s")
    return 0


if __name__ == "__main__":  # what the Snakefile calls, in the build folder
    sys.exit(render(find_root(), Path.cwd()))
