"""A pretend GPU: tensors that carry CPU data, call themselves ``cuda`` and refuse to be mixed with others.

So a forgotten ``.to(device)``, a table left on the CPU or a generator of the wrong device is an error on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
MOVES = {"to", "cpu", "cuda", "copy_", "numpy", "item", "tolist", "__bool__", "__float__", "__int__", "__index__"}
INDEXING = {"__getitem__", "__setitem__"}  # torch takes an index from the CPU for a tensor on a GPU
waits: list[str] = []
"""Every call that would have made the CPU wait for the GPU."""
READS = {"item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__contains__", "__repr__"}
READS |= {"is_nonzero", "nonzero", "argwhere", "masked_select", "unique", "bincount", "equal", "allclose"}
COPIES = {"tensor", "as_tensor", "from_numpy", "new_tensor", "asarray"}


class OnGPU(Tensor):
    """A tensor of a pretend GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True


class Generator(torch.Generator):
    """A generator that lives where it was asked for."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        made = super().__new__(cls)
        made.place = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place


class _Pretend(TorchFunctionMode):
    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.device:
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        given = [item for item in tree_flatten((args, kwargs))[0] if isinstance(item, Tensor)]
        on_gpu = [item for item in given if isinstance(item, OnGPU)]
        others = [item for item in given if not isinstance(item, OnGPU) and item.ndim > 0]
        if on_gpu and others and name not in MOVES | INDEXING:
            raise RuntimeError(f"torch.{name}: expected all tensors on one device, found cuda:0 and cpu")
        target = _asked_for(name, args, kwargs)
        place = target or (CUDA if on_gpu else CPU)
        if _waits(name, args, given, place):
            waits.append(name)
        generator = kwargs.get("generator")
        if isinstance(generator, Generator) and generator.device.type != place.type:
            raise RuntimeError(f"torch.{name}: expected a {place.type} generator, found {generator.device.type}")
        if "device" in kwargs:
            kwargs["device"] = CPU
        plain = tree_map(lambda item: CPU if isinstance(item, torch.device) else item, args)
        if name in ("to", "new_tensor") and len(plain) > 1 and isinstance(plain[1], str):
            plain = (plain[0], "cpu", *plain[2:])
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*plain, **kwargs)
        if name in ("__get__", "size", "dim", "stride", "__set__") and not isinstance(result, Tensor):
            return result
        return tree_map(lambda item: _placed(item, place), result)


def _waits(name: str, args: tuple[Any, ...], given: list[Tensor], place: torch.device) -> bool:
    """Whether a GPU would be waited for: its numbers are read, or some cross over, one way or the other.

    torch synchronises after every copy between the two that is not asked to be ``non_blocking``.
    """
    on_gpu = [isinstance(item, OnGPU) for item in given]
    if name in INDEXING and on_gpu[0]:  # by a mask, whose entries are counted, or by positions from the CPU
        at = tree_flatten(args[1])[0]
        return any(isinstance(i, Tensor) and (i.dtype == torch.bool or not isinstance(i, OnGPU)) for i in at)
    if name in COPIES:
        return place.type == "cuda"
    if name in ("to", "cpu", "cuda", "copy_") and given:
        return any(there != (place.type == "cuda") for there in on_gpu)
    return any(on_gpu) and name in READS


def _asked_for(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Where a call wants its result, if it says so."""
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    if name in ("cpu", "numpy", "tolist", "item"):
        return CPU
    if name == "to":
        for item in args[1:]:
            if isinstance(item, torch.device):
                return item
            if isinstance(item, str):
                return torch.device(item)
            if isinstance(item, Tensor):
                return CUDA if isinstance(item, OnGPU) else CPU
    return None


def _placed(item: Any, place: torch.device) -> Any:
    if not isinstance(item, Tensor):
        return item
    if place.type == "cuda":
        return item if isinstance(item, OnGPU) else item.as_subclass(OnGPU)
    return item.as_subclass(Tensor) if isinstance(item, OnGPU) else item


@contextmanager
def pretend_gpu(monkeypatch: Any) -> Iterator[None]:
    """One GPU, as far as the code inside can tell."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "Generator", Generator)
    waits.clear()
    with _Pretend():
        yield
