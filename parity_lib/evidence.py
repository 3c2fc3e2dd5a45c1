"""Evidence: success as k of N with an interval, and a chapter's results as one JSON file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest


@dataclass(frozen=True)
class Rate:
    """k successes of N trials with the Wilson 95 % interval; prints as ``44 of 64 [57 %, 79 %]``."""

    successes: int
    trials: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """Successes divided by trials."""
        return self.successes / self.trials

    def __str__(self) -> str:
        return f"{self.successes} of {self.trials} [{self.low:.0%}, {self.high:.0%}]"


def wilson(successes: int, trials: int) -> Rate:
    """Rate of ``successes`` in ``trials`` with its Wilson 95 % interval."""
    successes, trials = int(successes), int(trials)
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return Rate(successes, trials, float(interval.low), float(interval.high))


VERDICTS = ("holds", "holds with a change", "fails", "vacuous here", "not tested")


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words, with the check that was fixed before any run."""

    place: str
    statement: str
    check: str


CLAIMS: dict[str, Claim] = {
    "expr-ffnn": Claim(
        "Proposition 3",
        "k ReLU neurons with 2k + 2 distinct parameters express every k-parity.",
        "The largest risk over the sets tried, on all 2^n inputs, is below 1e-12 and the distinct numbers "
        "in the network are at most 2k + 2.",
    ),
    "expr-transformer": Claim(
        "Proposition 3, eq. 2",
        "k heads and k neurons, 18k + 2 parameters, express every k-parity.",
        "Holds if the construction with the ReLU has risk below 0.01 with the paper's soft attention at temperature "
        "1/n, for every n tried; holds with a change if it has risk below 1e-12 with hard attention.",
    ),
    "fig2-left": Claim(
        "Appendix B.1, Figure 2 left",
        "Three heads trained on {8, 11, 18} each settle on a bit of their own with a score close to 1.",
        "Holds if the stated recipe (squared hinge, full batch) commits in more than half of the seeds; holds "
        "with a change if another recipe of the table does. Committed: the arg-max positions are exactly B and "
        "every head gives its position more than 0.6. Judged by the lower end of the Wilson interval.",
    ),
    "fig2-right": Claim(
        "Appendix B.1, Figure 2 right",
        "With the neighbours 16 and 17 in B, two heads often learn the direction half-way between them.",
        "Judged as fig2-left, on the share of seeds where two heads point within 0.1 positions of 16.5 and the "
        "remaining head gives the third bit more than 0.6.",
    ),
}


def record(
    notebook: str,
    parameters: Mapping[str, Any],
    numbers: Mapping[str, Any],
    verdicts: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> None:
    """Write a chapter's results as JSON: the parameters used, the numbers found, the claims decided.

    The file is ``<notebook>.json`` in the folder that the runner names (``PARITY_OUT``), otherwise in
    ``results/``. The same run gives the same bytes: no times, no machine.

    Parameters
    ----------
    verdicts : claim id -> (verdict, the numbers it rests on).
    """
    for claim, (verdict, _) in verdicts.items():
        if claim not in CLAIMS:
            raise ValueError(f"unknown claim {claim!r}; known: {', '.join(CLAIMS)}")
        if verdict not in VERDICTS:
            raise ValueError(f"unknown verdict {verdict!r} for {claim}; known: {', '.join(VERDICTS)}")
    content = {
        "notebook": notebook,
        "parameters": _plain(parameters),
        "numbers": _plain(numbers),
        "claims": {
            claim: {"verdict": verdict, "numbers": _plain(found)} for claim, (verdict, found) in verdicts.items()
        },
    }
    folder = Path(os.environ.get("PARITY_OUT") or "results")
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{notebook}.json.partial"
    partial.write_text(json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")
    partial.replace(folder / f"{notebook}.json")


def judge(stated: Rate, changed: Mapping[str, Rate], threshold: float = 0.5) -> str:
    """Verdict on a claim about success: from the recipe as stated, else from one with a named change."""
    if stated.low > threshold:
        return "holds"
    return "holds with a change" if any(rate.low > threshold for rate in changed.values()) else "fails"


def _plain(value: Any) -> Any:
    """Plain JSON values: rates become objects, tensors and arrays lists, tuples lists."""
    if isinstance(value, Rate):
        return asdict(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("results must be finite numbers, got nan or inf")
    return value
