"""Compute once: the store answers for the same arguments and code, and for nothing else."""

from __future__ import annotations

import importlib
import json
import pickle
import sys
from collections import Counter
from pathlib import Path

import pytest

from parity_lib.chapters import store

HELPER = "FACTOR = 2\nOTHER = 5\n\ndef times(x):\n    return FACTOR * x\n\ndef unused():\n    return OTHER\n"
CHAPTER = '''"""A chapter."""
from parity_lib.chapters.store import kept
from . import helper
from .helper import times

calls = []


@kept
def work(n, names=("a",), progress=False):
    """Doubles."""
    calls.append(n)
    return times(n)


@kept
def by_module(n):
    calls.append(n)
    return helper.times(n)


def judge(x):
    return x > 3
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package ``toy`` whose functions are kept in a checkout of its own; returns a function that imports it anew."""
    folder = tmp_path / "toy"
    folder.mkdir()
    for name, text in {"__init__": "", "helper": HELPER, "chapter": CHAPTER}.items():
        (folder / f"{name}.py").write_text(text)
    (tmp_path / "Snakefile").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(store, "ROOT", tmp_path)
    monkeypatch.setattr(store, "PACKAGE", "toy")
    monkeypatch.setattr(store, "__file__", str(folder / "chapters" / "store.py"))
    monkeypatch.setattr(store, "enabled", True)

    def fresh(**changes: tuple[str, str]):
        for name, (old, new) in changes.items():
            path = folder / f"{name}.py"
            assert old in path.read_text()
            path.write_text(path.read_text().replace(old, new))
        store._module.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "toy"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        return importlib.import_module("toy.chapter")

    yield fresh
    sys.dont_write_bytecode = False


def test_a_second_call_computes_nothing(toy):
    chapter = toy()
    assert [chapter.work(3), chapter.work(3), chapter.work(3, progress=True)] == [6, 6, 6]
    assert chapter.calls == [3]
    assert toy().work(3) == 6 and toy().calls == []


def test_other_arguments_are_computed(toy):
    chapter = toy()
    chapter.work(3), chapter.work(3.5), chapter.work(3, names=["b"]), chapter.work(3, ["a"])
    assert chapter.calls == [3, 3.5, 3]


@pytest.mark.parametrize("change", [
    {"chapter": ('"""Doubles."""', '"""Twice as much."""')},
    {"chapter": ("return x > 3", "return x > 4")},
    {"chapter": ("calls.append(n)", "calls.append(n)  # count")},
    {"helper": ("OTHER = 5", "OTHER = 6")},
])  # fmt: skip
@pytest.mark.parametrize("name", ["work", "by_module"])
def test_words_verdicts_and_code_out_of_reach_recompute_nothing(toy, change, name):
    getattr(toy(), name)(3)
    chapter = toy(**change)
    assert getattr(chapter, name)(3) == 6 and chapter.calls == []


@pytest.mark.parametrize("name", ["work", "by_module"])
def test_a_definition_within_reach_recomputes(toy, name):
    getattr(toy(), name)(3)
    chapter = toy(helper=("FACTOR = 2", "FACTOR = 3"))
    assert getattr(chapter, name)(3) == 9 and chapter.calls == [3]


@pytest.mark.parametrize("harm", [
    lambda kept: kept[:3],
    lambda kept: b"",
    lambda kept: kept.replace(pickle.dumps(6), pickle.dumps(7)),  # a sound pickle of another number
    lambda kept: pickle.dumps(7),
])  # fmt: skip
def test_a_truncated_or_altered_entry_is_computed_again(toy, tmp_path, harm):
    toy().work(3)
    (entry,) = (tmp_path / "build/store/chapter.work").glob("*.pickle")
    before = entry.read_bytes()
    entry.write_bytes(harm(before))
    assert entry.read_bytes() != before
    chapter = toy()
    assert chapter.work(3) == 6 and chapter.calls == [3]
    assert entry.read_bytes() == before


def test_arguments_that_have_no_plain_form_are_refused(toy):
    with pytest.raises(TypeError, match="got object"):
        toy().work(object())


def test_the_store_has_room_for_what_the_book_computes():
    """Else the oldest entries go before a second build asks for them, and every build computes them again."""
    records = [json.loads(path.read_text()) for path in (store.ROOT / "reference/records").glob("*.json")]
    most = Counter(name for record in records for name in record.get("computed", [])).most_common(1)[0][1]
    assert 2 * most <= store.KEPT_PER_FUNCTION
