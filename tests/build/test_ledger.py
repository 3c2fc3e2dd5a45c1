"""The ledger collects what chapters recorded, and nothing else."""

import json

import pytest

from parity_lib.build.claims import claims
from parity_lib.build.ledger import AFTER_LOOKS, collect, count, headline, short, table, title
from parity_lib.build.results import ResultsError
from parity_lib.evidence import Verdict, record, wilson
from parity_lib.figures.ledger import overview


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fails = Verdict("fails", "measured", {"rate": wilson(1, 4)}, "with another loss")
    record("one", {"expr-ffnn": Verdict("holds", "exact", {"risk": 0.0}), "fig2-left": fails})
    record("two", {"jacobian-sign": Verdict("misprint", "exact", {"off_by": {"plus": [3.94321, 4]}}, "a minus <sign>")})
    record("stray", {"lemma-8": Verdict("fails", "exact", {}, "nothing")})
    return tmp_path


def test_every_claim_has_a_row_and_what_no_chapter_decides_is_open(run):
    rows = collect(["one", "two"], run)
    assert list(rows["claim"]) == list(claims())
    verdicts = rows.set_index("claim")["as_stated"]
    assert verdicts["expr-ffnn"] == "holds" and verdicts["lemma-8"] == "open"  # the stray file does not count
    assert count(rows) == {"holds": 1, "misprint": 1, "fails": 1, "open": len(claims()) - 3}


def test_the_headline_says_what_holds_as_stated_and_how_we_know_and_counts_our_own_apart(run):
    ours = [name for name, claim in claims().items() if claim.ours]
    papers = len(claims()) - len(ours)
    record("mine", {ours[0]: Verdict("holds", "proved", {})})
    assert headline(collect(["one", "two", "mine"], run)) == (
        f"**{papers} claims:** 1 holds as stated; 1 is a misprint, corrected here; 1 fails as stated; "
        f"{papers - 3} are open. How we know: 2 exact, 1 measured. "
        f"**{len(ours)} statements of our own:** 1 holds as stated; {len(ours) - 1} are open. How we know: 1 proved."
    )


def test_the_table_has_two_columns_of_verdict_checks_numbers_and_links_and_escapes_them(run):
    html = table(collect(["one", "two"], run))
    assert html.count("<tr id=") == len(claims())
    assert "<th>as stated</th><th>what does hold</th>" in html
    assert "rate: 1 of 4 [5%, 70%]" in html and "off by, plus: 3.94, 4" in html
    assert "a minus &lt;sign&gt;" in html and "<sign>" not in html
    assert f'<a href="one.html#{claims()["fig2-left"].figure}">one</a>' in html
    assert 'href="#claim-fig2-left"' in html and 'data-show="misprint"' in html
    assert "Check:</em> " in html and html.count(AFTER_LOOKS) == 1  # of the one that was measured


def test_numbers_are_short_and_have_powers_of_ten_and_chapters_have_their_titles():
    assert [short(v) for v in (1.2e-13, 123456.0, 0.5, [1.0, 2e30], 7, "a")] == [
        "1.2·10⁻¹³", "1.23·10⁵", "0.5", "1, 2·10³⁰", "7", "a"]  # fmt: skip
    assert (title("convergence"), title("no such chapter")) == ("Two forces", "no such chapter")


def test_every_claim_that_is_decided_is_a_dot_of_the_figure(run, book_style):
    figure = overview(collect(["one", "two"], run))
    assert sum(len(dots.get_offsets()) for dots in figure.axes[0].collections) == 3
    assert figure.get_suptitle().startswith(f"1 of {len(claims())} claims hold as stated")


def test_a_claim_decided_twice_is_an_error(run):
    record("three", {"expr-ffnn": Verdict("fails", "exact", {}, "nothing")})
    with pytest.raises(ResultsError, match="expr-ffnn is decided twice, by one and three"):
        collect(["one", "three"], run)


SOUND = {"as_stated": "holds", "kind": "exact", "numbers": {}, "instead": ""}


@pytest.mark.parametrize(
    ("decided", "sentence"),
    [
        ({"expr-ffnn": {}}, r"odd\.json: claims, expr-ffnn, as_stated: Field required"),
        ({"no-such": SOUND}, "odd decides 'no-such', which is not among the claims"),
        ({"expr-ffnn": SOUND | {"as_stated": "true"}}, "as_stated: Input should be 'holds', 'narrower range'"),
        ({"expr-ffnn": SOUND | {"kind": "felt"}}, "kind: Input should be 'proved'"),
        ({"expr-ffnn": SOUND | {"more": 1}}, "expr-ffnn, more: Extra inputs are not permitted"),
    ],
)
def test_broken_results_are_refused_in_one_sentence(run, decided, sentence):
    (run / "results/odd.json").write_text(json.dumps({"chapter": "odd", "claims": decided, "tables": []}))
    with pytest.raises(ResultsError, match=sentence) as refusal:
        collect(["odd"], run)
    assert "\n" not in str(refusal.value)


def test_missing_results_are_refused_in_one_sentence(run):
    with pytest.raises(ResultsError, match=r"there is no .*four\.json: run the chapters first"):
        collect(["four"], run)
