"""Fused loops for the processor, where numba can be imported: the fast path of what torch says in tensors.

Every kernel has such a torch function as its reference, is tested against it, and leaves GPUs and machines without
numba to it; :func:`choose` alone asks which it is. Inputs drawn by counting, which both sides share, are here.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

try:
    import numba
    import scipy.linalg.cython_blas  # noqa: F401 - numba's products call it: loaded now, its threads can be limited
except ImportError:  # everything runs without it
    numba = None  # type: ignore[assignment]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as machine code, compiled at its first call and kept on disk where that is possible."""
    if numba is None:
        return function
    options: dict[str, Any] = {"fastmath": {"reassoc", "contract"}, "error_model": "numpy", "nogil": True}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to write to
        return numba.njit(**options)(function)


def choose(kernel: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """What calls ``kernel`` where numba is there, else ``reference``, of the same arguments, kept as ``.reference``."""

    @functools.wraps(reference)
    def call(*args: Any) -> Any:
        return (reference if numba is None else kernel)(*args)

    call.reference = reference  # type: ignore[attr-defined]
    return call


def fused(kernel: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let ``kernel`` do what a torch function says, for tensors on the processor, by :func:`choose`.

    The kernel sees them as float64; what it returns has the type of the first. It may decline (``NotImplemented``).
    """

    def decorate(reference: Callable[..., Any]) -> Callable[..., Any]:
        def on_the_processor(*args: Any) -> Any:
            tensors, found = [arg for arg in args if isinstance(arg, Tensor)], NotImplemented
            if all(tensor.device.type == "cpu" for tensor in tensors):
                found = kernel(*(as_array(arg) if isinstance(arg, Tensor) else arg for arg in args))
            if found is NotImplemented:
                return reference(*args)
            return tuple(torch.from_numpy(part).to(tensors[0].dtype) for part in found)

        return choose(on_the_processor, reference)

    return decorate


def as_array(tensor: Tensor) -> np.ndarray:
    """A tensor's numbers as a kernel takes them."""
    return (tensor.detach().double() if tensor.is_floating_point() else tensor).contiguous().numpy()
