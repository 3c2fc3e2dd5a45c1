"""The ledger collects what chapters recorded, and nothing else."""

import json
import re
import runpy
import warnings

import pytest
from checkouts import ROOT
from docutils import nodes
from docutils.core import publish_doctree
from tabulate import tabulate

from parity_lib.build.claims import claims, read_claims
from parity_lib.build.ledger import AFTER_LOOKS, collect, count, headline, lines, readable, short, table, title
from parity_lib.build.parameters import ParameterError
from parity_lib.build.results import ResultsError
from parity_lib.evidence import Verdict, record, verdict_table, wilson
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


def test_the_run_is_named_where_it_is_not_the_reader_s_own(run, monkeypatch, capsys):
    (run / "tmp").mkdir()
    monkeypatch.chdir(run / "tmp")  # as in the book's own build
    assert list(collect(["one"])["claim"]) == list(claims()) and capsys.readouterr().out == ""
    collect(["architecture"])
    assert capsys.readouterr().out in (f"Results of the run in {place}.\n" for place in ("build/book", "reference"))


def test_the_headline_has_three_numbers_and_says_in_words_what_became_of_our_own(run):
    ours = {name: Verdict("holds", "proved", {}) for name, claim in claims().items() if claim.ours}
    papers = [name for name, claim in claims().items() if not claim.ours]
    of = f"Of the papers' {len(papers)} claims"
    kept = "under a condition or a correction that is named"
    assert headline(collect(["one", "two"], run)) == (
        f"{of} 1 holds as stated, others {kept}, 1 fails, and the rest is open. Not all statements of our own hold."
    )
    record("mine", ours)
    said = headline(collect(["one", "two", "mine"], run))
    assert said.endswith("and the rest is open. All statements of our own hold.")
    narrow, fails = Verdict("narrower range", "exact", {}, "less"), Verdict("fails", "exact", {})
    found = dict.fromkeys(papers, narrow) | dict.fromkeys(papers[:3], fails)
    record("every", found | {papers[-1]: Verdict("holds", "exact", {})} | ours)
    said = headline(collect(["every"], run))
    assert said == f"{of} 1 holds as stated, most others {kept}, and 3 fail. All statements of our own hold."
    assert len(re.findall(r"\d+", said)) == 3


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
    assert short(1e-5) == "10⁻⁵"
    assert (title("convergence"), title("no such chapter")) == ("Two forces", "no such chapter")


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("1 to 1e-9, b from 1e-4 to 2.5e14", "1 to 10⁻⁹, b from 0.0001 to 2.5·10¹⁴"),
        ("a_11, a_rl with r != 1 and c_2 = 0.01", "a₁₁, aᵣₗ with r ≠ 1 and c₂ = 0.01"),
        ("300 d^2 ln d, 2 pi (d^2/m), m^k E[G^k], 2^n", "300 d² ln d, 2 π (d²/m), mᵏ E[Gᵏ], 2ⁿ"),
        ("1 - 2m / 2^⌈(n-1)/m⌉, -log perm, c1 tau, (log2 d)^2", "1 − 2m / 2^⌈(n−1)/m⌉, −log perm, c1 τ, (log₂ d)²"),
        ("2^ceil(n), squared_hinge, figure2, pick", "2^ceil(n), squared_hinge, figure2, pick"),
    ],
)
def test_formulas_in_plain_text_are_shown_as_one_writes_them(plain, shown):
    assert readable(plain) == shown


def test_the_ledger_has_no_number_in_machine_notation():
    shown = re.sub(r"<[^>]+>", " ", table(collect(["all"], ROOT / "reference")))
    assert re.findall(r".{9}\d[eE][-+]?\d+", shown) == []


def test_a_chapter_s_table_names_its_claims_as_the_paper_does(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book/_ext"))
    found = {"lemma-8": Verdict("fails", "exact", {}, "a_11 > 1e-9"), "no-claim": Verdict("holds", "exact", {})}
    page = publish_doctree(tabulate(verdict_table(found), headers="keys", tablefmt="rst", showindex=False))
    runpy.run_path(str(ROOT / "book/_ext/verdict_tables.py"))["name_claims"](None, page)
    shown = [[cell.astext() for cell in row.children] for row in page.findall(nodes.row)]
    claim = claims()["lemma-8"]
    assert shown[1] == [f"{claim.place}: {readable(claim.statement)}", "fails", "a₁₁ > 10⁻⁹", "exact"]
    assert shown[2][0] == "no-claim"
    assert [link["refuri"] for link in page.findall(nodes.reference)] == ["ledger.html#claim-lemma-8"]


def test_every_claim_that_is_decided_is_a_dot_of_the_figure(run, book_style):
    figure = overview(collect(["one", "two"], run))
    assert sum(len(dots.get_offsets()) for dots in figure.axes[0].collections) == 3
    assert figure.get_suptitle().startswith(f"1 of the papers' {sum(not claim.ours for claim in claims().values())} claims hold as stated")


def test_a_run_that_decides_nothing_has_a_figure_and_a_number_that_is_none_is_a_dash(run, book_style):
    record("none", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = overview(collect(["none"], run))
    assert figure.get_suptitle().startswith("0 of the papers'") and not figure.axes[0].collections
    assert lines({"power": None, "gaps": [1.0, None]}) == ["power: –", "gaps: 1, –"]


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


def test_a_claim_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text("a: {place: p, statement: s, check: c, figure: f}\n")
    assert list(read_claims(path)) == ["a"]
    path.write_text(2 * path.read_text())
    with pytest.raises(ParameterError, match="claims.yml: .*the key 'a' stands twice"):
        read_claims(path)
