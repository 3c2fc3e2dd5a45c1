"""The ledger collects what chapters recorded, and nothing else."""

import json
from dataclasses import asdict

import pytest

from parity_lib import wilson
from parity_lib.build.claims import CLAIMS
from parity_lib.evidence import ResultsError, Verdict, record
from parity_lib.build.ledger import collect, count, entries, headline, overview, table


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("PARITY_OUT", str(tmp_path))
    monkeypatch.setenv("PARITY_RESULTS", str(tmp_path))
    record(
        "one",
        {},
        {},
        {"expr-ffnn": Verdict("holds", {"risk": 0.0}), "fig2-left": Verdict("fails", {"rate": wilson(1, 4)})},
    )
    changed = Verdict("holds with a change", {"off_by": {"plus": [3.94321, 4]}}, "a minus <sign>")
    record("two", {}, {}, {"jacobian-sign": changed})
    record("stray", {}, {}, {"lemma-8": Verdict("fails", {})})
    return tmp_path


def test_every_claim_has_a_row_and_what_no_chapter_decides_is_not_tested(results):
    rows = collect(["one", "two"])
    assert [row.claim for row in rows] == list(CLAIMS)
    verdicts = {row.claim: row.verdict for row in rows}
    assert verdicts["expr-ffnn"] == "holds" and verdicts["lemma-8"] == "not tested"  # the stray file does not count
    assert count(rows) == {"holds": 1, "holds with a change": 1, "fails": 1, "not tested": len(CLAIMS) - 3}


def test_the_headline_says_what_holds_as_printed(results):
    assert headline(collect(["one", "two"])) == (
        f"**{len(CLAIMS)} claims:** 1 holds as printed; 1 holds only with a change, which is named; 1 fails; "
        f"{len(CLAIMS) - 3} are not tested."
    )


def test_the_table_shows_checks_numbers_and_changes_and_escapes_them(results):
    html = table(collect(["one", "two"]))
    assert html.count("<tr id=") == len(CLAIMS)
    assert "rate: 1 of 4 [5%, 70%]" in html
    assert "off by, plus: 3.94, 4" in html
    assert "a minus &lt;sign&gt;" in html
    assert '<a href="one.html#fig-success-left">' in html  # to the figure that shows it
    assert "http" not in html and "@" not in html


def test_the_overview_names_every_claim(results):
    fig = overview(collect(["one", "two"]))
    assert {text.get_text() for text in fig.axes[0].texts} == set(CLAIMS)


def test_the_ledger_keeps_all_that_is_known_of_a_claim(results):
    kept = entries(collect(["one", "two"]))
    assert list(kept) == list(CLAIMS)
    assert kept["fig2-left"] == asdict(CLAIMS["fig2-left"]) | {
        "claim": "fig2-left",
        "verdict": "fails",
        "change": "",
        "numbers": {"rate": asdict(wilson(1, 4))},
        "chapter": "one",
    }


def test_a_claim_decided_twice_is_an_error(results):
    record("three", {}, {}, {"expr-ffnn": Verdict("fails", {})})
    with pytest.raises(ResultsError, match="expr-ffnn is decided twice, by one and three"):
        collect(["one", "three"])


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"expr-ffnn": {}}, r"odd\.json: expr-ffnn must have a verdict, numbers and a change"),
        ({"no-such": {"verdict": "holds", "change": "", "numbers": {}}}, r"odd\.json decides 'no-such'"),
        ({"expr-ffnn": {"verdict": "true", "change": "", "numbers": {}}}, "unknown verdict 'true' of expr-ffnn"),
    ],
)
def test_broken_results_are_refused_in_one_sentence(results, claims, sentence):
    content = {"notebook": "odd", "parameters": {}, "numbers": {}, "claims": claims}
    (results / "odd.json").write_text(json.dumps(content))
    with pytest.raises(ResultsError, match=sentence):
        collect(["odd"])


def test_missing_results_are_refused_in_one_sentence(results):
    with pytest.raises(ResultsError, match=r"there is no .*four\.json: run the chapters first"):
        collect(["four"])
