"""The runner refuses before a kernel starts, and publishes only what finished."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkouts import ROOT, save, wait_for, write_notebook

from parity_lib.build.display import Watch, say, shown
from parity_lib.build.parameters import (
    Parameter,
    ParameterError,
    check_here,
    check_parameters,
    checked,
    parse_overrides,
    read_cell,
    read_parameters,
)
from parity_lib.build.results import checksum
from parity_lib.build.runner import RunError, _clean, processor, run_notebook

CELL = """\
n: int = 20  # sequence length [2..1000000]
bits: list[int] = [8, 11, 18]  # the unknown positions [1..1000000]
temperature: float = 1.0  # softmax temperature (0..inf)
rates: list[float] = [0.1, 1e-3]  # step sizes (0..10]
limit: float = 2.5  # may be infinite [0..inf]
device: str = "auto"  # where to train {auto, cpu, cuda}
note: str = "a b"  # any text
seeds: int = 64  # how many runs {16, 64, 256}
loud: bool = False  # print more
"""


@pytest.fixture(autouse=True)
def without_torch(toy_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(toy_package))  # for kernels


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write_notebook(tmp_path / "notebooks" / "toy.ipynb", CELL)


def test_every_line_of_the_cell_becomes_a_parameter(notebook: Path) -> None:
    parameters = {p.name: p for p in read_parameters(notebook)}
    assert list(parameters) == [line.partition(":")[0] for line in CELL.splitlines()]
    assert parameters["bits"] == Parameter("bits", "list[int]", [8, 11, 18], "the unknown positions", "[1..1000000]")
    assert parameters["note"].default == "a b"
    assert parameters["temperature"].allowed == "(0..inf)"
    assert parameters["loud"].allowed == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n = 20  # length [1..9]", "type must be one of int, float"),
        ("n: int  # length [1..9]", "'name: type = literal  # help' on one line"),
        ("n: list[int] = [1,\n 2]  # length [1..9]", "comment that says what it is for"),
        ("n: int = 3  # where a = b [1..9]", "without another ="),
        ("  n: int = 3  # length [1..9]", "on one line"),
        ("import os", "'name: type = literal  # help' on one line"),
        ("n: complex = 1j  # length [1..9]", "type must be one of int, float"),
        ("n: int = 4", "comment that says what it is for"),
        ("n: int = 4  # [1..9]", "comment that says what it is for"),
        ("n: int = 4  # length", "comment must end with the allowed values"),
        ("n: int = 2 * k  # length [1..9]", "must be a literal"),
        ("n: int = 10  # length [1..9]", "n must be an int in [1..9], got 10"),
        ("n: int = 4.0  # length [1..9]", "n must be an int in [1..9], got 4.0"),
        ("n: int = (  # length [1..9]", "must be a literal"),
    ],
)
def test_a_malformed_parameter_line_is_refused(line: str, reason: str) -> None:
    with pytest.raises(ValueError) as refusal:
        read_cell(line)
    assert str(refusal.value).startswith("parameter line '")
    assert reason in str(refusal.value)


def test_a_notebook_needs_exactly_one_parameters_cell(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "toy.ipynb", CELL)
    loaded = json.loads(path.read_text())
    loaded["cells"].append(loaded["cells"][1])
    path.write_text(json.dumps(loaded))
    with pytest.raises(ParameterError, match="toy: one cell must carry the tag 'parameters'"):
        read_parameters(path)
    path.write_text("not a notebook")
    with pytest.raises(ParameterError, match=r"toy\.ipynb cannot be read as a notebook"):
        read_parameters(path)


REFUSALS = [
    ({"seeed": 3}, "unknown parameter 'seeed' (did you mean 'seeds'?); known: n, bits"),
    ({"n": 1}, "n must be an int in [2..1000000], got 1"),
    ({"n": True}, "n must be an int in [2..1000000], got True"),
    ({"n": 20.0}, "n must be an int in [2..1000000], got 20.0"),
    ({"n": "20"}, "n must be an int in [2..1000000], got the string '20'"),
    ({"n": None}, "n must be an int in [2..1000000], got None"),
    ({"temperature": 0}, "temperature must be a float in (0..inf), got 0"),
    ({"temperature": -1.0}, "temperature must be a float in (0..inf), got -1.0"),
    ({"temperature": math.nan}, "temperature must be a float in (0..inf), got nan"),
    ({"temperature": math.inf}, "temperature must be a float in (0..inf), got inf"),
    ({"temperature": 10**400}, "temperature must be a float in (0..inf), got 1000"),
    ({"temperature": "1e-3"}, "got the string '1e-3' (YAML reads it as a number only with a point"),
    ({"limit": math.nan}, "limit must be a float in [0..inf], got nan"),
    ({"rates": [0.1, "x"]}, "a list[float] of at least one item, each in (0..10], got [0.1, 'x']"),
    ({"rates": 0.1}, "rates must be a list[float] of at least one item, each in (0..10], got 0.1"),
    ({"rates": []}, "rates must be a list[float] of at least one item"),
    ({"rates": [0.1, 11.0]}, "each in (0..10], got [0.1, 11.0]"),
    ({"device": "tpu"}, "device must be one of {auto, cpu, cuda}, got the string 'tpu'"),
    ({"seeds": 32}, "seeds must be one of {16, 64, 256}, got 32"),
    ({"note": 3}, "note must be a str, got 3"),
    ({"loud": "yes"}, "loud must be a bool, got the string 'yes'"),
    ({"loud": 1}, "loud must be a bool, got 1"),
    ({"bits": []}, "bits must be a list[int] of at least one item"),
    ({"bits": [8, 8, 18]}, "bits must be distinct positions in 1..20, got (8, 8, 18)"),
    ({"rates": [0.1, 0.1]}, "rates must hold each value once, got (0.1, 0.1)"),
    ({"bits": [8, 21]}, "bits must be distinct positions in 1..20, got (8, 21)"),
    ({"n": 3, "bits": [1, 2, 3, 4]}, "bits must be distinct positions in 1..3, got (1, 2, 3, 4)"),
    ({"rates": [0.1, "1e-3"]}, "(YAML reads it as a number only with a point, 1.0e-03)"),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSALS, ids=[str(r[0]) for r in REFUSALS])
def test_bad_values_are_refused_in_one_sentence(notebook: Path, overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        check_parameters(notebook, overrides)
    message = str(refusal.value)
    assert message.startswith("toy: ") and sentence in message and "\n" not in message


def test_both_panels_may_have_as_many_starts() -> None:
    cell = read_cell("later_seeds: list[int] = [80, 32]  # starts, left and right [1..1024]")
    assert checked(cell, {"later_seeds": [5, 5]}) == {"later_seeds": [5, 5]}


def test_values_keep_their_declared_type(notebook: Path) -> None:
    values = check_parameters(notebook, {"temperature": 2, "rates": (1, 0.5), "limit": math.inf})
    assert values["temperature"] == 2.0 and isinstance(values["temperature"], float)
    assert values["rates"] == [1.0, 0.5]
    assert values["limit"] == math.inf
    assert values["n"] == 20


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("bits", "8,11,18", [8, 11, 18]),
        ("bits", "[8, 11, 18]", [8, 11, 18]),
        ("bits", "7", [7]),
        ("temperature", "1e-3", 1e-3),
        ("temperature", "2", 2.0),
        ("loud", "true", True),
        ("loud", "False", False),
        ("note", "1e-3", "1e-3"),
        ("device", "cpu", "cpu"),
    ],
)
def test_command_line_texts_are_read_by_the_declared_type(notebook: Path, name: str, text: str, value: object) -> None:
    assert parse_overrides(notebook, [(name, text)]) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("n", text) for text in ("1e3", "__import__('os')", " 20", "2_0", "٢٠", "9" * 5000)),
        *(("loud", "yes"), ("bits", "8,,9"), ("bits", ""), ("bits", "[8,11"), ("temperature", "nan")),
    ],
)
def test_command_line_texts_of_another_type_are_refused(notebook: Path, name: str, text: str) -> None:
    with pytest.raises(ParameterError, match=f"toy: {name} must be"):
        parse_overrides(notebook, [(name, text)])


def test_neighbours_are_asked_for_before_anything_runs() -> None:
    notebook = ROOT / "notebooks/figure2.ipynb"
    for bits in ([1, 5, 9], [1, 2, 3]):
        with pytest.raises(ParameterError, match="neighbour_bits must contain exactly one pair of neighbours, got"):
            check_parameters(notebook, {"neighbour_bits": bits})
    assert check_parameters(notebook, {"neighbour_bits": [1, 5, 20]})["neighbour_bits"] == [1, 5, 20]  # a circle


def test_a_parameter_given_twice_is_refused(notebook: Path) -> None:
    with pytest.raises(ParameterError, match="toy: n is given twice"):
        parse_overrides(notebook, [("n", "3"), ("n", "4")])


SAVE = save("toy", "n=n")


def run(folder: Path, *code: str, n: int = 7, decide: bool = True, key: str = "") -> Path:
    """Run a toy notebook with this code into ``folder/build``."""
    cell = "n: int = 20  # size [2..99]"
    notebook = write_notebook(folder / "notebooks" / "toy.ipynb", cell, *code)
    build = folder / "build"
    values = check_parameters(notebook, {"n": n})
    run_notebook(notebook, values, output=build / "toy.ipynb", build=build, decide=decide, key=key)
    return build


def test_a_finished_run_leaves_page_results_tables_and_record_and_the_caller_s_environment(tmp_path, capsys) -> None:
    before = dict(os.environ)
    look = "import os, sys; print(os.getcwd(), os.environ['PYTHONHASHSEED'])"
    build = run(tmp_path, look, "import warnings; warnings.warn('careful')", SAVE)
    assert dict(os.environ) == before
    assert json.loads((build / "results/toy.json").read_text()) == {"chapter": "toy", "claims": {}, "tables": ["toy"]}
    assert (build / "tables/toy/toy.csv").read_text() == "n\n7\n"
    record = json.loads((build / "records/toy.json").read_text())
    assert record["parameters"] == {"n": 7}
    assert record["seconds"] > 0 and record["cpu_seconds"] > 0 and record["peak_memory_mb"] > 10
    assert record["computed"] == record["reused"] == []
    assert {"python", "torch", "numpy", "platform", "processor", "cpus", "commit", "date"} <= set(record)
    made = {"results/toy.json", "tables/toy/toy.csv", "toy.ipynb"}
    assert record["products"] == {name: checksum(build / name) for name in made}
    text = (build / "toy.ipynb").read_text()
    page = json.loads(text)
    (injected,) = [c for c in page["cells"] if "injected-parameters" in c["metadata"]["tags"]]
    assert "".join(injected["source"]) == "# Parameters\nn = 7\n"
    assert page["cells"][3]["outputs"][0]["text"] == [". 0\n"]
    assert "papermill" not in text and str(tmp_path) not in text and "ipykernel_" not in text
    assert list((build / "tmp").iterdir()) == []
    out = capsys.readouterr().out
    assert out.startswith("toy: started\n") and "toy: done in " in out


def test_a_table_that_a_run_no_longer_has_goes(tmp_path: Path) -> None:
    build = run(tmp_path, SAVE)
    run(tmp_path, SAVE.replace("toy=", "other="))
    assert [path.name for path in (build / "tables/toy").iterdir()] == ["other.csv"]


TELL = """
from parity_lib.evidence import Verdict, record, tell
verdicts = {"lemma-8": Verdict("fails", "exact", {"risk": 1.0}, "nothing")}
record("toy", verdicts)
tell("n is {n}", holds=n == 8, n=n)
"""


def test_a_false_sentence_is_an_error_at_the_published_size_alone_and_where_verdicts_count(tmp_path: Path) -> None:
    """They do not in the ledger of a profile that decides no claim, at its own default parameters."""
    for size, decide, verdict in ((7, True, "fails"), (20, False, "open")):  # 20 is the default
        claims = json.loads((run(tmp_path, TELL, n=size, decide=decide) / "results/toy.json").read_text())["claims"]
        assert claims["lemma-8"]["as_stated"] == verdict and claims["lemma-8"]["numbers"] == {"risk": 1.0}
    with pytest.raises(RunError, match="toy: FalseSentenceError: not true of this run: n is 20"):
        run(tmp_path, TELL, n=20)


def test_a_line_is_one_write_even_unbuffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs side by side share one pipe: with two writes a line they would cut into each other's."""
    writes = []

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            writes.append(bytes(data))
            return len(data)

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Pipe(), write_through=True))  # as PYTHONUNBUFFERED=1 has it
    say("toy: started")
    assert writes == [b"toy: started\n"]
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Pipe(), encoding="latin-1", write_through=True))
    say("█· é")  # a terminal without a sign for a bar
    assert writes[1:] == ["?· é\n".encode("latin-1")]


def test_large_figures_are_cleaned_in_no_time(tmp_path: Path) -> None:
    page = write_notebook(tmp_path / "toy.ipynb", CELL, "x = '" + "iVBORw0KGgo/" * 300_000 + "'")
    before = time.process_time()
    _clean(page, [tmp_path])
    assert time.process_time() - before < 2


def test_a_failed_run_publishes_nothing_and_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError) as failure:
        run(tmp_path, SAVE, "def f():\n    raise ValueError('no such\\nthing')\nf()")
    assert str(failure.value) == "toy: ValueError: no such; see build/logs/toy.failed.ipynb"
    build = tmp_path / "build"
    trace = (build / "logs/toy.error.txt").read_text()
    assert trace.startswith("toy: ValueError: no such\n")
    assert "raise ValueError" in trace and "\x1b" not in trace
    assert "ValueError" in (build / "logs/toy.failed.ipynb").read_text()
    assert not any((build / "results").iterdir()) and not any((build / "records").iterdir())
    assert not (build / "toy.ipynb").exists()
    run(tmp_path, SAVE)
    assert not any((build / "logs").iterdir())


def test_a_warning_on_a_page_is_an_error_at_the_published_size_and_in_a_book(tmp_path: Path) -> None:
    warn = "import warnings; warnings.warn('careful')"
    run(tmp_path, warn, SAVE)  # at a reader's own size, and in a book of any
    for book in ({"n": 20}, {"key": "of a book"}):
        with pytest.raises(RunError, match=r"toy: UnsoundError: its page would show a warning: .*careful"):
            run(tmp_path, warn, SAVE, **book)


def test_a_notebook_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="finished without recording its results"):
        run(tmp_path, "n + 1")


def test_a_kernel_that_dies_is_an_error_and_not_repeated(tmp_path: Path) -> None:
    count = "open('../../../count.txt', 'a').write('x')"
    with pytest.raises(RunError, match="toy: DeadKernelError: .* want of memory"):
        run(tmp_path, count, "import os; os._exit(3)")
    assert (tmp_path / "count.txt").read_text() == "x"


def test_plain_papermill_gets_the_same_sentence(notebook: Path, tmp_path: Path, monkeypatch) -> None:
    """As in JupyterLab: the cell is known by what was executed, the value by what it is now."""
    shell = SimpleNamespace(user_ns={"In": ["", "import os", CELL, "# Parameters\nn = 1\n"], **defaults(CELL)})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    check_here()
    shell.user_ns |= {"In": [*shell.user_ns["In"][:3], '# Parameters\nsead = 1\nbits = [\n    1,\n]\n'], "sead": 1}
    with pytest.raises(ValueError, match=r"^unknown parameter 'sead' \(did you mean"):
        check_here()
    shell.user_ns["In"].append(CELL)  # run again in JupyterLab: what papermill gave is gone
    check_here()
    del shell.user_ns["In"][3:]
    shell.user_ns["n"] = 1
    with pytest.raises(ValueError, match=r"^n must be an int in \[2\.\.1000000\], got 1$"):
        check_here()
    shell.user_ns["In"][2] = "# Try others.\n\n" + CELL.replace("limit:", "\n# A comment.\nlimit:") + "\n"
    with pytest.raises(ValueError, match=r"^n must be an int in \[2\.\.1000000\], got 1$"):
        check_here()
    shell.user_ns["In"][2] = CELL.replace("  # sequence length [2..1000000]", "")
    with pytest.raises(ValueError, match=r"^parameter line 'n: int = 20': it must end with a comment"):
        check_here()
    shell.user_ns["In"][2] = 60 * "\n" + "n = 20"  # at once, however many lines are blank
    with pytest.raises(ValueError, match="check_here found no parameters: run the cell that declares them"):
        check_here()
    shell.user_ns["In"][2] = CELL.replace("n: int = 20", "n: int = 0")
    with pytest.raises(ValueError, match=r"n must be an int in \[2\.\.1000000\], got 0$"):
        check_here()


def defaults(cell: str) -> dict[str, object]:
    return {parameter.name: parameter.default for parameter in read_cell(cell)}


@pytest.fixture
def working(tmp_path: Path) -> Path:
    """The scratch folder of a notebook that is at work."""
    scratch = tmp_path / "toy-x1"
    scratch.mkdir()
    (scratch / "kernel.json").write_text("{}")
    return scratch


def step(scratch: Path, done: int) -> None:
    (scratch / "progress.json").write_text(json.dumps({"label": "theory", "done": done, "total": 10}))


def test_progress_is_a_bar_a_step_and_the_time_left(working: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0, 0, 5, 20, 30])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    watch = Watch(working.parent)
    step(working, 0)
    assert watch.lines() == {"toy": 24 * "·" + "  theory 0%"}
    step(working, 5)
    assert watch.lines() == {"toy": 12 * "█" + 12 * "·" + "  theory 50%, 0:20 left"}


def test_progress_is_redrawn_in_a_terminal_and_said_now_and_then_in_a_log(working: Path, capsys, monkeypatch) -> None:
    step(working, 4)
    with shown(working.parent, live=True):
        wait_for(lambda: "theory 40%" in capsys.readouterr().out)
        say("toy: a line of its own")
        wait_for(lambda: "\x1b[F\x1b[2Ktoy: a line of its own\n" in capsys.readouterr().out)
    monkeypatch.setattr("parity_lib.build.display.EVERY", 0.1)
    with shown(working.parent, live=False):
        wait_for(lambda: "toy: theory 40%\n" in capsys.readouterr().out)


def test_processors_of_one_name_are_told_apart_by_their_kind(tmp_path: Path) -> None:
    described = tmp_path / "cpuinfo"
    core = "processor\t: 0\ncpu family\t: {}\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n\n"
    described.write_text(2 * core.format(26))
    assert processor(described) == "AMD EPYC, cpu family 26, model 2"
    described.write_text(2 * core.format(25))
    assert processor(described) == "AMD EPYC, cpu family 25, model 2"
    assert processor(tmp_path / "nowhere") == platform.processor()
