"""The benchmarks run, on sizes too small to mean anything; how fast they are is for ``make bench`` to say."""

import json
import re
from pathlib import Path

import pytest

from parity_lib.build.report import benchmark, benchmark_claims
from parity_lib.build.results import Record, ResultsError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> tuple[dict, Path]:
    """What every benchmark finds at sizes too small to mean anything, and the folder where it was written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import run
        import timing

        patch.setattr(timing, "MOST_ROUNDS", 1)
        folder = tmp_path_factory.mktemp("bench")
        run.write(run.measure(run.SMALL), folder)
        return json.loads((folder / "benchmarks.json").read_text()), folder


def test_every_benchmark_runs_and_leaves_its_pictures(small):
    results, folder = small
    assert (folder / "benchmarks_update.png").stat().st_size > 5000
    assert (folder / "benchmarks_growth.png").stat().st_size > 5000
    assert max(row["value error"] for row in results["tables"]["enumeration"]) < 1e-5
    assert {row["largest difference"] < 1e-5 for row in results["tables"]["encoder"]} == {True}


def test_the_kept_run_has_every_section_comparison_and_claim_that_the_code_prints(small, monkeypatch):
    """If this fails, book/benchmarks.json is older than the code: benchmarks/run.py --keep measures it again."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import run

    printed, kept = small[0], json.loads((ROOT / "book/benchmarks.json").read_text())
    assert list(kept) == list(printed) and list(kept["machine"]) == list(printed["machine"])
    assert kept["sizes"] == json.loads(json.dumps(run.FULL))
    assert list(kept["gpu"]) == list(printed["gpu"])
    for results in (kept, printed):
        results["promised"] = [(claim["claim"], claim["sense"], claim["target"]) for claim in results["claims"]]
        results["compared"] = {name: labels(rows) for name, rows in results["tables"].items()}
    assert kept["promised"] == printed["promised"]
    assert kept["compared"] == printed["compared"]


def labels(rows: list[dict]) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of a table and, where its rows have names, those names."""
    columns = list(rows[0])
    assert all(list(row) == columns for row in rows)
    named = [column for column in ("way", "loss", "what grows", "run") if column in columns]
    return columns, {column: list(dict.fromkeys(row[column] for row in rows)) for column in named}


def test_an_update_is_timed_over_a_block_that_shuffles_at_least_once(monkeypatch):
    """The median of single updates leaves out the slow ones: the same loop was told to take 103 and 49 ms."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import learning
    import run

    blocks = []

    def in_turns(calls, rounds, steps):
        blocks.append(steps)
        return dict.fromkeys(calls, 1.0)

    monkeypatch.setattr(learning, "in_turns", in_turns)
    sizes = run.SMALL | {"updates": run.FULL["updates"]}
    rows = learning.against_tokens(sizes["n"], sizes["bits"], sizes["batch"], sizes["seeds"], sizes["updates"])
    assert blocks == [run.FULL["updates"]] and run.FULL["updates"] >= 8  # the loader has eight batches
    assert [row["way"] for row in rows] == ["tokens", "minibatch", "exact"]


def test_the_whole_books_minutes_say_which_chapters_had_been_computed_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import run

    def of(computed, reused):
        facts = {"parameters": {}, "seconds": 400.0, "commit": None, "date": "today", "cpu_seconds": 300.0}
        return Record(chapter="c", computed=computed, reused=reused, **facts)

    found = {"first": of(["a.x"], []), "shares": of([], ["a.x"]), "before": of(["b.y"], ["c.z"])}
    monkeypatch.setattr(run, "records", lambda run: found)
    former, now = run.whole_book(tmp_path)
    assert former["processor minutes"] == 54 and now["processor minutes"] == 15 and now["times faster"] == 3.6
    assert now["computed before"] == "before"  # a result shared within the run is paid for in it


def test_the_gpu_section_says_that_there_is_none_and_its_code_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import gpu
    import run

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu.section(run.SMALL) == {"device": None, "note": gpu.NONE, "rows": []}
    row = gpu.compare(2, run.SMALL, "cpu")  # the same device twice: what a GPU would run, without one
    assert row["largest difference"] == 0 and row["GPU, ms per update"] > 0 and row["GPU, ms per gradient"] > 0


def test_the_page_shows_every_table_and_picture_that_is_kept():
    page = (ROOT / "book/benchmarks.md").read_text()
    named = re.findall(r"{benchmark} (\w+)", page)
    kept = json.loads((ROOT / "book/benchmarks.json").read_text())
    assert set(named) | {"cosine", "growth"} == {"claims", "machine", "gpu", *kept["tables"]}
    for name in named:
        shown = benchmark(name, ROOT / "book")
        assert shown.count("\n") >= 2 or (name, shown) == ("gpu", kept["gpu"]["note"])
    for picture in re.findall(r"\]\((\S+png)\)", page):
        assert (ROOT / "book" / picture).is_file()
    with pytest.raises(ResultsError, match="unknown benchmark 'speed'; known: claims, machine, gpu, figure2"):
        benchmark("speed", ROOT / "book")


def test_a_target_is_met_or_not():
    for sense, measured, met in (("<=", 3, "yes"), ("<=", 3.1, "no"), (">=", 3, "yes"), (">=", 2.9, "no")):
        claim = {"claim": "c", "setting": "s", "sense": sense, "target": 3, "measured": measured}
        assert benchmark_claims({"claims": [claim]}).split()[-2] == met


def test_a_target_is_written_as_a_power_of_ten():
    claim = {"claim": "c", "setting": "s", "sense": "<=", "target": 1e-6, "measured": 2e-7}
    assert "| at most 10⁻⁶ | 2·10⁻⁷     | yes" in benchmark_claims({"claims": [claim]})
