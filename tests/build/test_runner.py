"""The runner refuses before a kernel starts, and publishes only what finished."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkouts import ROOT, wait_for, write_notebook
from hypothesis import given
from hypothesis import strategies as st

from parity_lib.build.parameters import (
    Parameter,
    ParameterError,
    _read_cell,
    check_parameters,
    filled_in,
    parse_overrides,
    read_parameters,
)
from parity_lib.build.runner import RunError, _clean, _progress, run_notebook, say

CELL = """\
n: int = 20  # sequence length [2..1000000]
bits: list[int] = [8, 11, 18]  # the unknown positions [1..1000000]
temperature: float = 1.0  # softmax temperature, # is no comment here (0..inf)
rates: list[float] = [0.1, 1e-3]  # step sizes (0..10]
limit: float = 2.5  # may be infinite [0..inf]
device: str = "auto"  # where to train {auto, cpu, cuda}
note: str = "a # b"  # any text
seeds: int = 64  # how many runs {16, 64, 256}
loud: bool = False  # print more
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write_notebook(tmp_path / "notebooks" / "toy.ipynb", CELL)


def test_every_line_of_the_cell_becomes_a_parameter(notebook: Path) -> None:
    parameters = {p.name: p for p in read_parameters(notebook)}
    assert list(parameters) == [line.partition(":")[0] for line in CELL.splitlines()]
    assert parameters["bits"] == Parameter("bits", "list[int]", [8, 11, 18], "the unknown positions", "[1..1000000]")
    assert parameters["note"].default == "a # b"
    assert parameters["temperature"].allowed == "(0..inf)"
    assert parameters["loud"].allowed == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n = 20  # length [1..9]", "'name: type = literal  # help' on one line"),
        ("n: int  # length [1..9]", "'name: type = literal  # help' on one line"),
        ("n: list[int] = [1,\n 2]  # length [1..9]", "on one line"),
        ("import os", "'name: type = literal  # help' on one line"),
        ("n: complex = 1j  # length [1..9]", "type must be one of int, float"),
        ("n: int = 4", "comment that says what it is for"),
        ("n: int = 4  # [1..9]", "comment that says what it is for"),
        ("n: int = 4  # length", "comment must end with the allowed values"),
        ("n: int = 2 * k  # length [1..9]", "must be a literal"),
        ("n: int = 10  # length [1..9]", "n must be an int in [1..9], got 10"),
        ("n: int = 4.0  # length [1..9]", "n must be an int in [1..9], got 4.0"),
        ("n: int = (", "is not Python"),
    ],
)
def test_a_malformed_parameter_line_is_refused(line: str, reason: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        _read_cell(line, "toy")
    assert str(refusal.value).startswith("toy: ")
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
    ({"bits": [8, 21]}, "bits must be distinct positions in 1..20, got (8, 21)"),
    ({"n": 3, "bits": [1, 2, 3, 4]}, "bits must be at most n = 3 positions"),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSALS, ids=[str(r[0]) for r in REFUSALS])
def test_bad_values_are_refused_in_one_sentence(notebook: Path, overrides: dict[str, object], sentence: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        check_parameters(notebook, overrides)
    message = str(refusal.value)
    assert message.startswith("toy: ") and sentence in message and "\n" not in message


def test_a_device_that_is_not_there_is_refused(notebook: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ParameterError, match=r"toy: .*cuda"):
        check_parameters(notebook, {"device": "cuda"})


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
    assert parse_overrides(notebook, {name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [("n", "1e3"), ("n", "__import__('os')"), ("loud", "yes"), ("bits", "8,,9"), ("bits", "")],
)
def test_command_line_texts_of_another_type_are_refused(notebook: Path, name: str, text: str) -> None:
    with pytest.raises(ParameterError, match=f"toy: {name} must be"):
        parse_overrides(notebook, {name: text})


numbers = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


@given(
    st.fixed_dictionaries(
        {
            "n": st.integers(2, 10**6),
            "bits": st.lists(st.integers(1, 10**6), min_size=1),
            "temperature": numbers,
            "limit": st.one_of(numbers, st.just(math.inf)),
            "note": st.text().filter(lambda text: text.isprintable()),
            "loud": st.booleans(),
        }
    )
)
def test_a_filled_in_cell_reads_back_as_the_values_put_in(values: dict[str, object]) -> None:
    before = {p.name: p.default for p in _read_cell(CELL, "toy")}
    filled = filled_in(CELL, before | values)
    assert {p.name: p.default for p in _read_cell(filled, "toy")} == before | values
    assert [line.partition("  #")[2] for line in filled.splitlines() if "note" not in line] == [
        line.partition("  #")[2] for line in CELL.splitlines() if "note" not in line
    ]


SAVE = """\
import json, os
with open(os.path.join(os.environ["PARITY_OUT"], "toy.json"), "w") as file:
    json.dump({"n": n}, file)
"""


def run(folder: Path, *code: str) -> Path:
    """Run a toy notebook with this code into ``folder/build``."""
    cell = "n: int = 20  # size [2..99]"
    notebook = write_notebook(folder / "notebooks" / "toy.ipynb", cell, *code)
    build = folder / "build"
    values = check_parameters(notebook, {"n": 7})
    run_notebook(notebook, values, output=build / "toy.ipynb", build=build)
    return build


def test_a_finished_run_leaves_page_results_and_record(tmp_path: Path, capsys) -> None:
    look = "import os, sys; print(os.getcwd(), os.environ['PYTHONHASHSEED'])"
    build = run(tmp_path, look, "import warnings; warnings.warn('careful')", SAVE)
    assert json.loads((build / "results/toy.json").read_text()) == {"n": 7}
    record = json.loads((build / "records/toy.json").read_text())
    assert record["parameters"] == {"n": 7}
    assert record["seconds"] > 0 and record["peak_memory_mb"] > 10
    assert {"python", "torch", "numpy", "platform", "processor", "cpus", "commit", "date"} <= set(record)
    text = (build / "toy.ipynb").read_text()
    page = json.loads(text)
    assert "".join(page["cells"][1]["source"]) == "n: int = 7  # size [2..99]"
    assert [c for c in page["cells"] if "injected-parameters" in c["metadata"]["tags"]] == []
    assert page["cells"][2]["outputs"][0]["text"] == [". 0\n"]
    assert "papermill" not in text and str(tmp_path) not in text and "ipykernel_" not in text
    assert list((build / "tmp").iterdir()) == []
    out = capsys.readouterr().out
    assert out.startswith("toy: started\n") and "toy: done in " in out


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


def test_a_notebook_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="finished without recording its results"):
        run(tmp_path, "n + 1")


def test_a_kernel_that_dies_is_an_error_and_not_repeated(tmp_path: Path) -> None:
    count = "open('../../../count.txt', 'a').write('x')"
    with pytest.raises(RunError, match="toy: DeadKernelError"):
        run(tmp_path, count, "import os; os._exit(3)")
    assert (tmp_path / "count.txt").read_text() == "x"


def test_the_caller_keeps_its_own_environment(tmp_path: Path) -> None:
    before = dict(os.environ)
    run(tmp_path, SAVE)
    assert dict(os.environ) == before


def test_progress_is_shown_while_the_notebook_works(tmp_path: Path, capsys) -> None:
    (tmp_path / "progress.txt").write_text("figure2-signed 40 %")
    with _progress("toy", tmp_path, live=True):
        wait_for(lambda: "toy: figure2-signed 40 %" in capsys.readouterr().out)


def test_torch_is_not_imported_to_list_chapters() -> None:
    code = "import sys, parity_lib.build.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
