"""How far the notebooks are that run: one line each, redrawn in a terminal, or a plain line now and then in a log."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY = 20.0  # seconds between plain lines of a chapter
WIDTH = 24  # of a bar

_writing = threading.Lock()
_drawn = 0  # lines that will be redrawn


def say(text: str) -> None:
    """Print a line, above those that are redrawn, in one write: jobs share the terminal."""
    _write(f"{text}\n")


def _write(text: str, redrawn: int = 0) -> None:
    global _drawn
    encoding = sys.stdout.encoding or "utf-8"  # of the terminal, which may have no sign for a bar
    with _writing:
        sys.stdout.write("\x1b[F\x1b[2K" * _drawn + text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
        _drawn = redrawn


class Watch:
    """The progress of every notebook whose scratch folder lies in ``tmp``, with the time each step has taken."""

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp
        self.steps: dict[tuple[str, str], tuple[float, int]] = {}  # when a step was first seen, and where it was
        self.since: dict[str, float] = {}

    def lines(self) -> dict[str, str]:
        """A line per running notebook: bar, step, share and time left."""
        found = {}
        for path in sorted(self.tmp.glob("*/kernel.json")):
            name = path.parent.name.rpartition("-")[0]
            started = self.since.setdefault(path.parent.name, time.monotonic())
            try:
                step = json.loads((path.parent / "progress.json").read_text(encoding="utf-8"))
                found[name] = self._step(path.parent.name, step["label"], step["done"], step["total"])
            except (OSError, ValueError, KeyError, TypeError):
                found[name] = f"{'·' * WIDTH}  {clock(time.monotonic() - started)}"
        return found

    def _step(self, scratch: str, label: str, done: int, total: int) -> str:
        now = time.monotonic()
        first, start = self.steps.setdefault((scratch, label), (now, done))
        if done < start:  # the same step again
            self.steps[scratch, label] = first, start = now, done
        share = done / total if total else 0
        left = (total - done) * (now - first) / (done - start) if done > start else None
        bar = ("█" * round(WIDTH * share)).ljust(WIDTH, "·")
        return f"{bar}  {label} {share:.0%}" + (f", {clock(left)} left" if left is not None else "")


def clock(seconds: float) -> str:
    """A time as a clock shows it: ``1:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def shown(tmp: Path, live: bool | None = None, news: Callable[[], Iterable[str]] = tuple) -> Iterator[None]:
    """While this lasts, show how far the notebooks in ``tmp`` are; ``live`` redraws, by default in a terminal.

    ``news`` is asked twice a second for lines to print besides.
    """
    live = sys.stdout.isatty() if live is None else live
    watch, stop, spoken = Watch(tmp), threading.Event(), dict[str, float]()

    def show() -> None:
        for line in news():
            say(line)
        lines = watch.lines()
        width = max(map(len, lines), default=0)
        if live:
            _write("".join(f"{name:{width}}  {line}\n" for name, line in lines.items()), len(lines))
            return
        for name, line in lines.items():
            if time.monotonic() - spoken.setdefault(name, time.monotonic()) >= EVERY:
                spoken[name] = time.monotonic()
                say(f"{name}: {line.strip('█· ')}")

    def work() -> None:
        while not stop.wait(0.5):
            show()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for line in news():
            say(line)
        _write("")
