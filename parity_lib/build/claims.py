"""The claims under audit, read from ``book/claims.yml``: data, so that a change of wording reruns nothing."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .parameters import about
from .results import read_yaml


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words, with the check that was fixed before the run that is reported.

    Attributes
    ----------
    place : where the paper makes it.
    statement : the claim in our words.
    check : what decides it.
    figure : the name of the figure that shows it (or the section, where it is a table), on its chapter's page.
    ours : whether it is a statement of this book, not of a paper.
    late : whether the check was written or changed after results were seen; it then says so itself.
    """

    place: str
    statement: str
    check: str
    figure: str
    ours: bool = False
    late: bool = False


@cache
def claims() -> dict[str, Claim]:
    """Every claim by its id, in the order of the ledger."""
    return read_claims(Path(__file__).resolve().parents[2] / "book" / "claims.yml")


def read_claims(path: Path) -> dict[str, Claim]:
    """The claims of a file; a claim or a part of it that stands there twice is refused."""
    with about(path.name):
        return {name: Claim(**parts) for name, parts in read_yaml(path).items()}
