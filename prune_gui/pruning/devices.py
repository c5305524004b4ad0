"""Where large linear algebra is computed: on a graphics card or the processor, in parts that fit.

The choice holds for the whole process, as that of threads does in `parallel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import torch

from prune_gui.errors import DeviceError

AUTOMATIC, CARD = "automatic", "gpu"
FAST_FLOAT64: Final = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
"""CUDA capabilities with half of the rate of float32 for float64; others have 1/32 or 1/64 (CUDA
C++ Programming Guide, arithmetic instructions)."""
TENSOR_FLOAT: Final = "tf32"
"""The format with 10 bits of mantissa in which tensor cores take float32 (NVIDIA A100 Tensor Core
GPU Architecture, 2020); sums stay float32."""
WORKING_BYTES: Final = 1 << 26
"""What one part of the work takes on the processor, beside its inputs and results."""
UNKNOWN_BYTES: Final = 1 << 30
"""The same on a device that does not tell its free memory."""
_chosen = AUTOMATIC


def find_device(name: str | torch.device) -> torch.device:
    """Return the device of a name: "automatic", "cpu", "gpu", or one of torch, such as "cuda:1".

    Automatic is the graphics card if there is one, else the processor.

    Raises:
        DeviceError: there is no such device.
    """
    card = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == AUTOMATIC:
        return card or torch.device("cpu")
    count = torch.accelerator.device_count() if card else 0
    try:
        device = card if name == CARD else torch.device(name)
    except RuntimeError:  # torch knows no such type
        device = None
    is_card = card is not None and device is not None and device.type == card.type
    if device is None or not (device.type == "cpu" or (is_card and (device.index or 0) < count)):
        there = ["cpu", *(f"{card.type}:{index}" for index in range(count) if card)]
        raise DeviceError(
            "There is no device {name}. Choose automatic, or one of: {names}.",
            name=name,
            names=", ".join(there),
        )
    return device


def use_device(name: str) -> None:
    """Compute on a device from now on; see `find_device`, which checks the name on first use."""
    global _chosen
    _chosen = name


def chosen_device() -> torch.device:
    """Return the device of `use_device`.

    Raises:
        DeviceError: there is no such device.
    """
    return find_device(_chosen)


def residual_dtype(device: torch.device) -> torch.dtype:
    """Return float64; float32 where a device computes float64 slowly or not at all."""
    if device.type == "cuda" and torch.version.hip is not None:
        is_fast = torch.cuda.get_device_properties(device).gcnArchName.startswith("gfx9")
    elif device.type == "cuda":
        is_fast = torch.cuda.get_device_capability(device) in FAST_FLOAT64
    else:
        is_fast = device.type == "cpu"
    return torch.float64 if is_fast else torch.float32


def rounds_products(device: torch.device) -> bool:
    """Return whether `tensor_core_products` changes the products on a device."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


@contextmanager
def tensor_core_products() -> Iterator[None]:
    """Let products of float32 matrices on CUDA round their factors to `TENSOR_FLOAT`, all threads'.

    A factor is then off by up to 2^-11 of itself. Solving for kept weights by such products takes a
    third to a quarter of the time on an H100.
    """
    matmul = torch.backends.cuda.matmul
    name: str = "allow_tf32"
    value: bool | str = True
    try:
        before = getattr(matmul, name)
    except RuntimeError:  # the caller has set it by its name since torch 2.9
        name, value = "fp32_precision", TENSOR_FLOAT
        before = getattr(matmul, name)
    setattr(matmul, name, value)
    try:
        yield
    finally:
        setattr(matmul, name, before)


def working_bytes(device: torch.device) -> int:
    """Return the bytes that one part of the work may take on a device: half of what is free."""
    if device.type == "cpu":
        return WORKING_BYTES
    if device.type != "cuda":
        return UNKNOWN_BYTES
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return (torch.cuda.mem_get_info(device)[0] + unused) // 2


def in_parts(count: int, part: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(start, stop)`` for spans of at most `part` that cover [0, count).

    Where the memory of the device does not suffice, a span is repeated in halves.

    Raises:
        torch.OutOfMemoryError: it does not suffice for a span of 1.
    """
    start, part = 0, max(1, part)
    while start < count:
        stop = min(start + part, count)
        try:
            work(start, stop)
        except torch.OutOfMemoryError:
            if stop - start == 1:
                raise
            part = (stop - start) // 2
        else:
            start = stop
