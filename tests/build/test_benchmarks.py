"""The benchmarks run, on sizes too small to mean anything; how fast they are is for ``make bench`` to say."""

import json
import re
from pathlib import Path

import pytest

from parity_lib.build.report import benchmark, benchmark_claims
from parity_lib.build.results import ResultsError

ROOT = Path(__file__).parents[2]


def test_every_benchmark_runs_and_leaves_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import run
    import timing

    monkeypatch.setattr(timing, "MOST_ROUNDS", 1)
    results = run.measure(run.SMALL, tmp_path)
    run.write(results, tmp_path)
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    shown = json.loads((ROOT / "book/benchmarks.json").read_text())
    assert list(kept["tables"]) == list(shown["tables"])
    for name, rows in kept["tables"].items():
        assert all(list(row) == list(shown["tables"][name][0]) for row in rows), name
    assert (tmp_path / "benchmarks_update.png").stat().st_size > 5000
    assert (tmp_path / "benchmarks_growth.png").stat().st_size > 5000
    assert max(row["value error"] for row in results["tables"]["enumeration"]) < 1e-5
    assert {row["largest difference"] < 1e-5 for row in results["tables"]["encoder"]} == {True}


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
    assert set(named) | {"cosine", "growth"} == {"claims", "machine", *kept["tables"]}
    for name in named:
        assert benchmark(name, ROOT / "book").count("\n") >= 2
    for picture in re.findall(r"\]\((\S+png)\)", page):
        assert (ROOT / "book" / picture).is_file()
    with pytest.raises(ResultsError, match="unknown benchmark 'speed'; known: claims, machine, figure2"):
        benchmark("speed", ROOT / "book")


def test_a_target_is_met_or_not():
    for sense, measured, met in (("<=", 3, "yes"), ("<=", 3.1, "no"), (">=", 3, "yes"), (">=", 2.9, "no")):
        claim = {"claim": "c", "setting": "s", "sense": sense, "target": 3, "measured": measured}
        assert benchmark_claims({"claims": [claim]}).split()[-2] == met
