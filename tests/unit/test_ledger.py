"""The ledger collects what chapters recorded, and nothing else."""

import json

import pytest

from parity_lib import wilson
from parity_lib.claims import CLAIMS
from parity_lib.evidence import Verdict, record
from parity_lib.ledger import collect, count, overview, table


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
    record("two", {}, {}, {"jacobian-sign": Verdict("holds with a change", {"by": {"plus": 3.9}}, "a minus <sign>")})
    record("stray", {}, {}, {"lemma-8": Verdict("fails", {})})
    return tmp_path


def test_every_claim_has_a_row_and_what_no_chapter_decides_is_not_tested(results):
    rows = collect(["one", "two"])
    assert [row.claim for row in rows] == list(CLAIMS)
    verdicts = {row.claim: row.verdict for row in rows}
    assert verdicts["expr-ffnn"] == "holds" and verdicts["lemma-8"] == "not tested"  # the stray file does not count
    assert count(rows) == {"holds": 1, "holds with a change": 1, "fails": 1, "not tested": len(CLAIMS) - 3}


def test_the_table_shows_checks_numbers_and_changes_and_escapes_them(results):
    html = table(collect(["one", "two"]))
    assert html.count("<tr data-verdict") == len(CLAIMS)
    assert "rate: 1 of 4 [5%, 70%]" in html
    assert "by, plus: 3.9" in html
    assert "a minus &lt;sign&gt;" in html
    assert "http" not in html and "@" not in html


def test_the_overview_names_every_claim(results):
    fig = overview(collect(["one", "two"]))
    assert {text.get_text() for text in fig.axes[0].texts} == set(CLAIMS)


def test_a_claim_decided_twice_is_an_error(results):
    record("three", {}, {}, {"expr-ffnn": Verdict("fails", {})})
    with pytest.raises(ValueError, match="expr-ffnn is decided twice, by one and three"):
        collect(["one", "three"])


def test_missing_and_broken_results_are_refused_in_one_sentence(results):
    with pytest.raises(FileNotFoundError, match="no results of four: run the chapters first"):
        collect(["four"])
    (results / "broken.json").write_text('{"claims": {"expr-ffnn": {}}}')
    with pytest.raises(ValueError, match=r"broken\.json is not a chapter's results"):
        collect(["broken"])
    (results / "odd.json").write_text(
        json.dumps({"claims": {"no-such": {"verdict": "holds", "change": "", "numbers": {}}}})
    )
    with pytest.raises(ValueError, match=r"odd\.json decides 'no-such'"):
        collect(["odd"])
