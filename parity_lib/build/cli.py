"""The command ``parity``: list the chapters, run one, build the book, run a study, compare a run with the reference."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import click

from .. import __version__
from .display import shown as progress_of
from .parameters import ParameterError, check_parameters, load_notebook, parse_overrides, read_parameters
from .results import ResultsError, read_record
from .runner import RunError, run_notebook
from .workflow import (
    PUBLISHED,
    BuildError,
    CheckoutError,
    build_book,
    check_profile,
    find_notebook,
    find_root,
    load_profile,
    locked,
    stale,
)  # fmt: skip


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Answer with a sentence instead of a traceback: status 2 for a bad request, 1 for a failure."""
    try:
        yield
    except (ParameterError, CheckoutError, ResultsError) as error:
        _leave(error, status=2)
    except (RunError, BuildError) as error:
        _leave(error, status=1)
    except OSError as error:
        _leave(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), status=1)


def _leave(reason: object, status: int) -> NoReturn:
    click.echo(f"error: {reason}" if status == 2 else str(reason), err=True)
    sys.exit(status)


@click.group(context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="parity")
def main() -> None:
    """Rerun the chapters of "Learning parity with attention" and build the book."""


@main.command("list")
def list_chapters() -> None:
    """Show every notebook: its title and its time here."""
    with _one_sentence():
        root = find_root()
        notebooks = sorted((root / "notebooks").glob("*.ipynb"))
        width = max((len(path.stem) for path in notebooks), default=0)
        for path in notebooks:
            times = ", ".join(_times(root, path.stem))
            click.echo(f"{path.stem:{width}}  {_title(path)}" + (f"  ({times})" if times else ""))


@main.command(add_help_option=False)
@click.argument("name", required=False)
@click.option("--profile", metavar="NAME", help="Start from the values of a profile.")
@click.option("-p", "--parameter", "texts", type=(str, str), multiple=True, metavar="KEY VALUE", help="Set one.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="[default: build/run]")
@click.option("--help", "wants_help", is_flag=True, help="Show the parameters of NAME.")
@click.pass_context
def run(
    context: click.Context, name: str | None, profile: str | None, texts: tuple[tuple[str, str], ...],
    output: Path | None, wants_help: bool,
) -> None:  # fmt: skip
    """Execute one notebook, with your own parameters."""
    if name is None:
        click.echo(context.get_help())
        sys.exit(0 if wants_help else 2)
    with _one_sentence():
        root = find_root()
        notebook = find_notebook(root, name)
        if wants_help:
            _show_parameters(notebook)
            return
        overrides = load_profile(root, profile).get(name, {}) if profile else {}
        values = check_parameters(notebook, overrides | parse_overrides(notebook, texts))
        folder = output or root / "build" / "run"
        _check_output(root, folder)
        target = folder / notebook.name
        with locked(folder, f"{name!r} in {os.path.relpath(folder)}", name), progress_of(folder / "tmp"):
            run_notebook(notebook, values, output=target, build=folder)
        for made in (target, folder / "results" / f"{name}.json", folder / "tables" / name):
            click.echo(os.path.relpath(made))


_cores = click.option(
    "--cores", type=click.IntRange(1, 4096), default=os.cpu_count() or 1, show_default="all", help="Jobs at once."
)
_cluster = click.option(
    "--cluster", type=click.Path(path_type=Path), metavar="DIR", help="A scheduler, by Snakemake's DIR/config.yaml."
)


@main.command()
@click.option("--profile", default=PUBLISHED, show_default=True, metavar="NAME")
@_cores
@_cluster
@click.option("--dry-run", is_flag=True, help="Say what would run, and why.")
def book(profile: str, cores: int, cluster: Path | None, dry_run: bool) -> None:
    """Run what is not up to date and build the book."""
    with _one_sentence():
        root = find_root()
        if dry_run:
            reasons = stale(root, check_profile(root, profile), root / "build" / profile)
            click.echo("\n".join(f"{name or 'the pages'}: {why}" for name, why in reasons.items()) or "up to date")
            return
        click.echo(os.path.relpath(build_book(root, profile, cores, cluster)))


@main.command()
@click.argument("name")
@_cores
@_cluster
def study(name: str, cores: int, cluster: Path | None) -> None:
    """Run the study studies/NAME.yml: success over n, k and recipes.

    Its blocks of seeds are independent jobs. Those that are done are kept: a study that was stopped
    goes on, and a wider grid runs only what is new.
    """
    from .study import run_study

    with _one_sentence():
        for path in run_study(find_root(), name, cores, cluster):
            click.echo(os.path.relpath(path))


def _check_output(root: Path, folder: Path) -> None:
    """Refuse to write among the sources (inside the checkout only ``build/`` is for what is generated) or in a book."""
    inside = folder.resolve()
    if inside.is_relative_to(root) and not inside.is_relative_to(root / "build"):
        raise ParameterError(f"--output {folder} lies among the sources, choose a folder below build or elsewhere")
    books = [root / "build" / path.stem for path in (root / "profiles").glob("*.yml")]
    taken = [*books, root / "build" / "store", root / "build" / "studies"]
    if inside == root / "build" or any(inside.is_relative_to(folder) for folder in taken):
        raise ParameterError(f"--output {folder} holds other results, choose another folder below build or elsewhere")


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="List every difference.")
def verify(folder: Path | None, verbose: bool) -> None:
    """Compare a run with the reference run.

    By default the book's run; else what lies in FOLDER, such as build/run.

    Status 0 if everything that was compared agrees, 1 if not, 2 if there is nothing to compare.
    """
    from .verify import report, status, verify

    with _one_sentence():
        root = find_root()
        chapters = None if folder else list(load_profile(root, PUBLISHED))
        found = verify(folder or root / "build" / PUBLISHED, root / "reference", chapters)
        click.echo(report(found, verbose))
        sys.exit(status(found))


@main.command()
@click.option("--adopt", "adopting", is_flag=True, help="First make the finished run of the book the reference.")
def reference(adopting: bool) -> None:
    """Write the results of the reference run into the README."""
    from .reference import adopt, show

    with _one_sentence():
        root = find_root()
        if adopting:
            adopt(root)
        for path in show(root):
            click.echo(os.path.relpath(path))


def _title(notebook: Path) -> str:
    for cell in load_notebook(notebook)["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if cell["cell_type"] == "markdown" and line.startswith("# "):
                return line.removeprefix("# ").strip()
    return ""


def _times(root: Path, name: str) -> Iterator[str]:
    for profile in sorted(path.stem for path in (root / "profiles").glob("*.yml")):
        with suppress(ResultsError):  # no record, or none that can be read
            yield f"{profile} {read_record(root / 'build' / profile, name).seconds:.0f} s"


def _show_parameters(notebook: Path) -> None:
    click.echo(f"parity run {notebook.stem} [--profile NAME] [-p KEY VALUE]... [--output DIR]\n")
    click.echo(f"{_title(notebook)}\n\nParameters:")
    for p in read_parameters(notebook):
        allowed = f"  {p.allowed}" if p.allowed else ""
        click.echo(f"  {p.name}: {p.type} = {p.default!r}{allowed}\n      {p.help}")


if __name__ == "__main__":
    main()
