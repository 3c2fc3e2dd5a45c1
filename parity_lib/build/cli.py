"""The command ``parity``: list the chapters, run one, build the book, run a study, race a recipe, verify a run."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from .. import __version__
from . import PUBLISHED

# What works is imported where it is used: `parity --help` need not wait for pandas.


@contextmanager
def _checkout() -> Iterator[Path]:
    """The checkout; and a sentence instead of a traceback: status 2 for a bad request, 1 for a failure."""
    from .parameters import ParameterError
    from .results import ResultsError
    from .runner import RunError
    from .workflow import BuildError, CheckoutError, find_root

    try:
        yield find_root()
    except (ParameterError, CheckoutError, ResultsError) as error:
        _leave(error, status=2)
    except (RunError, BuildError) as error:
        _leave(error, status=1)
    except BrokenPipeError:
        raise  # as in `parity list | head`, which is no failure
    except KeyboardInterrupt:
        _leave("stopped; what is finished is kept, and the same command goes on from there", status=130)
    except OSError as error:
        _leave(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""), status=1)


def _leave(reason: object, status: int) -> NoReturn:
    from .results import printable

    lines = "\n".join(map(printable, str(reason).split("\n")))
    click.echo(f"error: {lines}" if status == 2 else lines, err=True)
    sys.exit(status)


def _print(*paths: Path) -> None:
    """What was made, as it is called from here."""
    click.echo("\n".join(map(os.path.relpath, paths)))


def _names(pattern: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For the completion of a shell: the files of the checkout like ``pattern``, by name."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        from .workflow import CheckoutError, find_root

        try:
            return sorted(path.stem for path in find_root().glob(pattern) if path.stem.startswith(begun))
        except CheckoutError:
            return []

    return complete


@click.group(context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="parity")
def main() -> None:
    """Rerun the chapters of "Learning parity with attention", build the book, race a loss of your own.

    Completion of names, for bash: eval "$(_PARITY_COMPLETE=bash_source parity)"; zsh and fish likewise.
    """


@main.command("list")
def list_chapters() -> None:
    """Show every notebook: its title and its time here."""
    with _checkout() as root:
        from .parameters import heading
        from .results import printable
        from .workflow import named

        notebooks = named((root / "notebooks").glob("*.ipynb"))
        width = max(map(len, notebooks), default=0)
        for name, path in notebooks.items():
            times = ", ".join(_times(root, name))
            click.echo(printable(f"{name:{width}}  {heading(path)}" + (f"  ({times})" if times else "")))


@main.command(add_help_option=False)
@click.argument("name", required=False, shell_complete=_names("notebooks/*.ipynb"))
@click.option("--profile", metavar="NAME", help="Start from the values of a profile.",
              shell_complete=_names("profiles/*.yml"))  # fmt: skip
@click.option("-p", "--parameter", "texts", type=(str, str), multiple=True, metavar="KEY VALUE", help="Set one.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="[default: build/run, in a folder of its own if parameters are set]")  # fmt: skip
@click.option("--open", "opening", is_flag=True, help="Show the page in a browser.")
@click.option("--help", "wants_help", is_flag=True, help="Show the parameters of NAME.")
@click.pass_context
def run(
    context: click.Context, name: str | None, profile: str | None, texts: tuple[tuple[str, str], ...],
    output: Path | None, opening: bool, wants_help: bool,
) -> None:  # fmt: skip
    """Execute one notebook, with your own parameters."""
    if name is None:
        click.echo(context.get_help())
        sys.exit(0 if wants_help else 2)
    with _checkout() as root:
        from .display import shown
        from .parameters import check_parameters, parse_overrides
        from .runner import as_page, clear_scratch, run_notebook, seek_exporter
        from .workflow import find_notebook, load_profile, locked

        notebook = find_notebook(root, name)
        if wants_help:
            _show_parameters(notebook)
            return
        if opening:
            seek_exporter()
        overrides = load_profile(root, profile).get(name, {}) if profile else {}
        values = check_parameters(notebook, overrides | parse_overrides(notebook, texts))
        folder = output or _own_folder(root, notebook, values)
        _check_output(root, folder)
        target = folder / notebook.name
        for other in (folder, root / "build" / "run", *(root / "build" / "run").glob(f"{name}-*")):
            clear_scratch(other, name)
        with locked(folder, f"{name!r} in {os.path.relpath(folder)}", name), shown(folder / "tmp"):
            run_notebook(notebook, values, output=target, build=folder)
        _print(target, folder / "results" / f"{name}.json", folder / "tables" / name)
        if opening:
            page = as_page(target)
            _print(page)
            click.launch(page.as_uri())


def _own_folder(root: Path, notebook: Path, values: Mapping[str, Any]) -> Path:
    """Below ``build/run``, apart from runs of the notebook with other parameters: none takes another's place."""
    from .parameters import check_parameters
    from .workflow import digest

    folder = root / "build" / "run"
    if values == check_parameters(notebook, {}):
        return folder
    return folder / f"{notebook.stem}-{digest(root, [], dict(values))[:8]}"


_profile = click.option(
    "--profile", default=PUBLISHED, show_default=True, metavar="NAME", shell_complete=_names("profiles/*.yml")
)
_cores = click.option(
    "--cores", type=click.IntRange(1, 4096), default=os.cpu_count() or 1, show_default="all", help="Jobs at once."
)
_cluster = click.option(
    "--cluster", type=click.Path(path_type=Path), metavar="DIR", help="A scheduler, by Snakemake's DIR/config.yaml."
)


@main.command()
@_profile
@_cores
@_cluster
@click.option("--dry-run", is_flag=True, help="Say what would run, and why.")
def book(profile: str, cores: int, cluster: Path | None, dry_run: bool) -> None:
    """Run what is not up to date and build the book."""
    with _checkout() as root:
        from .workflow import build_book, check_profile, stale

        if dry_run:
            reasons = stale(root, check_profile(root, profile), root / "build" / profile)
            click.echo("\n".join(f"{name or 'the pages'}: {why}" for name, why in reasons.items()) or "up to date")
            return
        _print(build_book(root, profile, cores, cluster))


@main.command()
@_profile
def pdf(profile: str) -> None:
    """Print the built book into one PDF, with Chromium."""
    with _checkout() as root:
        from .pdf import print_book
        from .workflow import load_profile

        load_profile(root, profile)
        _print(print_book(root, profile))


@main.command()
@click.argument("name", shell_complete=_names("studies/*.yml"))
@_cores
@_cluster
def study(name: str, cores: int, cluster: Path | None) -> None:
    """Run the study studies/NAME.yml: success over n, k and recipes.

    Its blocks of seeds are independent jobs. Those that are done are kept: a study that was stopped
    goes on, and a wider grid runs only what is new.
    """
    with _checkout() as root:
        from .study import run_study

        _print(*run_study(root, name, cores, cluster))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--against", metavar="NAMES", help="Recipes by name, with commas between.  [default: those of the chart]")
@click.option("-p", "--parameter", "texts", type=(str, str), multiple=True, metavar="KEY VALUE",
              help="Another n, ks, pairs, updates or device than the chart's.")  # fmt: skip
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="[default: build/race]")
def race(file: Path, against: str | None, texts: tuple[tuple[str, str], ...], output: Path | None) -> None:
    """Race a recipe of your own against the named ones.

    FILE is Python, and it is executed: race only files you trust. It defines RECIPE, a parity_lib.Recipe; or a
    function loss(label, prediction), a read-out head(s, k), or both. It runs on the success chart of the atlas: the
    same sets of bits, starts, criterion, updates and intervals.
    """
    with _checkout() as root:
        from .race import run_race

        if output:
            _check_output(root, output)
        _print(*run_race(root, file, against, texts, output))


def _check_output(root: Path, folder: Path) -> None:
    """Refuse to write among the sources (inside the checkout only ``build/`` is for what is generated) or in a book."""
    from .parameters import ParameterError

    inside = folder.resolve()
    if root.is_relative_to(inside) and inside != root:
        raise ParameterError(f"--output {folder} holds the checkout itself, choose a folder below build or elsewhere")
    if inside.is_relative_to(root) and not inside.is_relative_to(root / "build"):
        raise ParameterError(f"--output {folder} lies among the sources, choose a folder below build or elsewhere")
    books = [root / "build" / path.stem for path in (root / "profiles").glob("*.yml")]
    taken = [*books, root / "build" / "store", root / "build" / "studies"]
    if inside == root / "build" or any(inside.is_relative_to(folder) for folder in taken):
        raise ParameterError(f"--output {folder} holds other results, choose another folder below build or elsewhere")


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--verbose", is_flag=True, help="List every difference.")
@click.option("--json", "for_program", is_flag=True, help="Every value, as JSON.")
def verify(folder: Path | None, verbose: bool, for_program: bool) -> None:
    """Compare a run with the reference run.

    By default the book's run; else what lies in FOLDER, such as build/run.

    Status 0 if everything that was compared agrees, 1 if not, 2 if there is nothing to compare.
    """
    with _checkout() as root:
        from .verify import as_json, report, status, verify
        from .workflow import load_profile

        chapters = None if folder else list(load_profile(root, PUBLISHED))
        found = verify(folder or root / "build" / PUBLISHED, root / "reference", chapters)
        click.echo(as_json(found) if for_program else report(found, verbose))
        sys.exit(status(found))


@main.command()
def doctor() -> None:
    """Look at this machine: what the book needs, what is there, and what to do.

    Status 0 if the book can be built, 1 if not.
    """
    with _checkout() as root:
        from .doctor import examine

        bad = False
        for finding in examine(root):
            click.echo(str(finding))
            bad |= finding.bad
        sys.exit(1 if bad else 0)


@main.command()
@click.option("--adopt", "adopting", is_flag=True, help="First make the finished run of the book the reference.")
def reference(adopting: bool) -> None:
    """Write the results of the reference run into the README."""
    with _checkout() as root:
        from .reference import adopt, show

        if adopting:
            adopt(root)
        _print(*show(root))


def _times(root: Path, name: str) -> Iterator[str]:
    from .results import ResultsError, read_record

    for profile in sorted(path.stem for path in (root / "profiles").glob("*.yml")):
        with suppress(ResultsError):  # no record, or none that can be read
            yield f"{profile} {read_record(root / 'build' / profile, name).seconds:.0f} s"


def _show_parameters(notebook: Path) -> None:
    from .parameters import heading, read_parameters

    click.echo(f"parity run {notebook.stem} [--profile NAME] [-p KEY VALUE]... [--output DIR] [--open]\n")
    click.echo(f"{heading(notebook)}\n\nParameters:")
    for p in read_parameters(notebook):
        allowed = f"  {p.allowed}" if p.allowed else ""
        click.echo(f"  {p.name}: {p.type} = {p.default!r}{allowed}\n      {p.help}")


if __name__ == "__main__":
    main(prog_name="parity")
