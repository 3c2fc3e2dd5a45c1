"""A recipe of one's own on the book's chart: what a file may hold, and what becomes of all else."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from checkouts import ROOT
from click.testing import CliRunner

from parity_lib import RECIPES
from parity_lib.build.cli import main
from parity_lib.build.parameters import check_parameters
from parity_lib.build.race import run_race
from parity_lib.build.workflow import BuildError
from parity_lib.chapters import race
from parity_lib.chapters.robustness import on_mixed_sets
from parity_lib.figures import race as figures

SMALL = {"n": 12, "ks": [1, 2], "pairs": 8, "updates": 150}
BY_HAND = "def loss(label, prediction):\n    return 1 - label * prediction.sigmoid()\n"
OWN = """\
import torch
from parity_lib import Recipe
RECIPE = Recipe("mine", "a cosine", "linear", "adam", 0.1, head=lambda s, k: torch.cos(torch.pi * s))
"""


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_loss_written_by_hand_runs_as_the_named_one_does(tmp_path: Path) -> None:
    """The same sets, starts and updates: run by run the same end as the chart's own line."""
    own = race.load(write(tmp_path, BY_HAND))
    assert own.name == "mine" and callable(own.loss)
    found = race.run(own, **SMALL).drop(columns=["recipe", "risk", "weakest"])
    named = pd.concat([on_mixed_sets(race.CHARTED["figure2-signed"], SMALL["n"], k, 8, 150) for k in (1, 2)])
    pd.testing.assert_frame_equal(found, named.drop(columns=["recipe", "risk", "weakest"]).reset_index(drop=True))
    assert race.run_source(BY_HAND, "mine.py", **SMALL)["committed"].tolist() == found["committed"].tolist()


def test_a_file_may_hold_a_recipe_a_read_out_or_helpers_beside_it(tmp_path: Path) -> None:
    assert race.load(write(tmp_path, OWN)).learning_rate == 0.1
    head = race.load(write(tmp_path, "def head(s, k):\n    return (3.14159 * s).cos()\n"))
    assert callable(head.head) and head.loss == RECIPES["figure2-signed"].loss
    write(tmp_path, "def steep(y, p):\n    return -y * p\n", "race_helper.py")
    before = list(sys.path)
    assert race.load(write(tmp_path, "from race_helper import steep as loss\n")).loss.__name__ == "steep"
    dated = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    assert race.load(write(tmp_path, f"{dated}@dataclass\nclass A:\n    b: int = 1\n{BY_HAND}")).name == "mine"
    assert sys.path == before and "recipe" not in sys.modules


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n", "mine.py: it must define RECIPE, a function loss(label, prediction) or a function head(s, k)"),
        ("loss = 3\n", "mine.py: it must define RECIPE"),
        ("RECIPE = 3\n", "mine.py: RECIPE must be a parity_lib.Recipe, got int"),
        ("x = (\n", "mine.py, line 1: SyntaxError: '(' was never closed"),
        ("\n\nimport nonsense_of_mine\n", "mine.py, line 3: ModuleNotFoundError: No module named 'nonsense_of_mine'"),
        ("x = 1\nx / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", "mine.py, line 2: SystemExit: 0"),
        ("def loss(y):\n    return y\n", "ValueError: loss must be a function f(label, prediction) of tensors"),
        ("def loss(y, p):\n    return (y - p).mean()\n", "with one finite float for each entry, got torch.float64 ()"),
        ("def loss(y, p):\n    return 1.0\n", "with one finite float for each entry, got float"),
        (OWN.replace("0.1", "-1"), "mine.py, line 3: ValueError: learning_rate must be a positive finite number"),
        (OWN.replace('"mine"', '"theory"'), "mine.py: the name theory is taken, choose another"),
        (OWN.replace('"mine"', r'"\x1b[2J"'), "mine.py: a recipe's name must be 1 to 40 signs that print"),
        (OWN.replace("0.1", "0.1, epochs=10**18"), "ValueError: a recipe must have at most 10000000 updates"),
        ("\0", "mine.py: "),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(race.RecipeError) as refused:
        race.load(write(tmp_path, text))
    assert sentence in str(refused.value) and "\n" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_what_cannot_be_read_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "pipe.py")
    for name, sentence in (
        ("nowhere.py", "No such file"), (".", "Is a directory"), ("binary.py", "it is not text"),
        ("pipe.py", "must be a file, not a pipe"), ("/dev/zero", "must be a file, not a pipe or a device"),
    ):  # fmt: skip
        with pytest.raises(race.RecipeError, match=sentence):
            race.load(tmp_path / name)
    with pytest.raises(ValueError, match="unknown recipe 'theorie'; known: theory"):
        race.rivals(["theorie"])
    with pytest.raises(ValueError, match="must be distinct, got theory, theory"):
        race.rivals(["theory", "theory"])
    with pytest.raises(ValueError, match="against figure2, on a share of all inputs, n must be at most 24, got 30"):
        race.rivals(["figure2", "theory"], 30)


def test_the_page_and_the_command_race_on_the_chart_of_the_atlas() -> None:
    atlas, page = (check_parameters(ROOT / f"notebooks/{name}.ipynb", {}) for name in ("robustness", "race"))
    shared = page.keys() - {"against"}
    assert {name: page[name] for name in shared} == {name: atlas[name] for name in shared}
    assert tuple(page["against"]) == race.RIVALS


def test_the_largest_error_estimate_is_told_and_a_loss_that_jumps_has_none(tmp_path: Path) -> None:
    assert race.error_estimate(RECIPES["theory"], 20, [1, 2, 3]) == pytest.approx(1e-4, rel=0.1)
    assert race.error_estimate(RECIPES["repaired"], 20, [1, 2]) == 0  # a permanent, no series
    jumps = write(tmp_path, "def loss(y, p):\n    return 1 - y * p.sign() + 0 * p\n")
    done = CliRunner().invoke(main, [
        "race", str(jumps), "-p", "n", "16", "-p", "ks", "1", "-p", "pairs", "4", "-p", "updates", "20",
        "--against", "repaired", "--output", str(tmp_path / "out"),
    ])  # fmt: skip
    assert "of 4 runs commit, but the error of its risk cannot be told, so that its gradients" in done.stdout


@pytest.mark.usefixtures("book_style")
def test_the_figure_says_who_does_better_and_who_worse_and_gives_every_line_a_colour_of_its_own(tmp_path: Path) -> None:
    own = race.load(write(tmp_path, BY_HAND))
    names = ["theory", "figure2", "later-code", "figure2-population", "figure2-signed", "repaired", "product-head"]
    found = race.run(own, **SMALL | {"ks": [1, 2, 3], "updates": 60})
    frame = pd.concat([found, *(found.assign(recipe=name, committed=name == "repaired") for name in names)])
    for commits, place in (
        (True, "100 % of the runs: no other recipe does better"),
        (False, "0 % of the runs: no other recipe does worse"),
        (frame["seed"] % 2 == 0, "50 % of the runs: more than the theorem's recipe, less than heads that sample"),
    ):
        frame = frame.assign(committed=frame["committed"].where(frame["recipe"] != "mine", commits))
        figure = figures.success(frame, "mine")
        assert figure.get_suptitle().replace("\n", " ") == f"mine commits in {place}"
    labels = [text for text in figure.axes[1].texts if text.get_text() in {"mine", *figures.NAMES.values()}]
    assert len(labels) == 8 and len({plt.matplotlib.colors.to_hex(text.get_color()) for text in labels}) == 8
    assert race.table(frame)["all"].tolist()[-2:] == ["24 of 24", "0 of 24"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of panels that collapse beside their names
        figure = figures.success(frame[frame["k"] == 2], "mine")
        figure.canvas.draw()
    legend = figure.axes[-1].get_legend()
    assert legend is not None and len(legend.get_texts()) == 8


def test_the_command_writes_two_tables_and_a_picture_or_nothing(tmp_path: Path) -> None:
    tiny = ["-p", "n", "8", "-p", "ks", "1", "-p", "pairs", "4", "-p", "updates", "20", "--against", "repaired"]
    arguments = ["--output", str(tmp_path / "out"), *tiny]
    broken = write(tmp_path, "def loss(y, p):\n    assert len(p) < 5, 'too long'\n    return -y * p\n", "broken.py")
    for file, status, sentence in (
        (broken, 1, "broken: training stopped, AssertionError: too long\n"),
        (write(tmp_path, "x = 1\n", "empty.py"), 2, "error: empty.py: it must define RECIPE"),
    ):
        done = CliRunner().invoke(main, ["race", str(file), *arguments])
        assert done.exit_code == status and sentence in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()
    done = CliRunner().invoke(main, ["race", str(write(tmp_path, BY_HAND)), *arguments])
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""
    assert re.match(r"mine: \d of 4 runs commit, error of the risk \de-\d\d by estimate, \d+\.\d s\n", done.stdout)
    assert re.search(r"\nrepaired: \d of 4 runs commit, error of the risk 0 by estimate, ", done.stdout)
    made = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert sorted(made) == ["race.svg", "rates.csv", "runs.csv"] and made["race.svg"].rstrip().endswith("</svg>")
    assert made["runs.csv"].count("\n") == 9 and made["rates.csv"].startswith("recipe,k,neighbours,successes,trials")
    refused = CliRunner().invoke(main, ["race", str(broken), "-p", "starts", "3"])
    assert refused.exit_code == 2 and "race: unknown parameter 'starts'" in refused.stderr


def test_two_races_have_two_folders_and_the_same_one_is_not_run_twice_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    ran = []

    def again(own: object, rivals: object, setting: object, folder: Path) -> tuple[Path, ...]:
        ran.append(folder)
        if len(ran) == 1:
            with pytest.raises(BuildError, match=r"another build of race 'mine-[0-9a-f]{8}' is running"):
                run_race(tmp_path, file, "repaired", [], None)
        return ()

    monkeypatch.setattr("parity_lib.build.race._race", again)
    file = write(tmp_path, BY_HAND)
    run_race(tmp_path, file, "repaired", [], None)
    run_race(tmp_path, file, "repaired", [], None)
    run_race(tmp_path, file, "theory", [], None)
    run_race(tmp_path, file, "repaired", [("n", "16")], None)
    run_race(tmp_path, write(tmp_path, BY_HAND + "# other\n"), "repaired", [], None)
    assert ran[0] == ran[1] and len(set(ran)) == 4 and {folder.parent for folder in ran} == {tmp_path / "build/race"}
