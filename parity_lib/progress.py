"""How far long work is: a bar here, or whatever somebody who listens makes of it."""

from collections.abc import Callable, Iterator

from tqdm import tqdm

listener: Callable[[str, int, int], None] | None = None
"""Called with (label, done, total) instead of drawing a bar; whoever runs a notebook may set it."""


def track(total: int, label: str, show: bool = True) -> Iterator[int]:
    """Counts to ``total`` and shows how far it is."""
    if listener is None:
        yield from tqdm(range(total), desc=label, disable=not show, delay=1, mininterval=0.5, leave=False)
        return
    for done in range(total):
        listener(label, done, total)
        yield done
