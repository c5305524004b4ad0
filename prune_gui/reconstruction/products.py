"""Fast products of float32 matrices: by oneDNN on the processor, by the tensor cores of a card.

torch leaves those on the processor to MKL, which uses half of the width of AVX-512 if Intel has not
made it: oneDNN takes half of the time there (measured on an AMD EPYC). On another without AVX-512,
oneDNN is not faster, and takes up to twice as long for X^T X.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from prune_gui.pruning.devices import tensor_core_products
from prune_gui.pruning.selection.scores import is_on_cpu

SMALLEST: Final = 1 << 20
"""Multiplications from which a product is worth the detour."""
DTYPES: Final = torch.float32, torch.bfloat16
aten = torch.ops.aten


@contextmanager
def fast_products() -> Iterator[None]:
    """Let the products of this thread be fast.

    Those on the processor keep the accuracy of float32; see `tensor_core_products` for others.
    """
    one_dnn = _OneDnnProducts() if one_dnn_is_faster() else nullcontext()  # type: ignore[no-untyped-call]
    with tensor_core_products(), one_dnn:
        yield


def multiplies_bfloat16(device: torch.device) -> bool:
    """Return whether a device is a processor with instructions for products of bfloat16.

    oneDNN takes half of the time of float32 with AVX-512 (measured on an AMD EPYC).
    """
    instructions = torch.cpu._is_avx512_bf16_supported, torch.cpu._is_amx_tile_supported
    return is_on_cpu(device) and has_one_dnn() and any(have() for have in instructions)


def has_one_dnn() -> bool:
    """Return whether this torch has oneDNN."""
    has_it: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_it


def one_dnn_is_faster() -> bool:
    """Return whether products of float32 on the processor are left to oneDNN."""
    return has_one_dnn() and "AVX512" in torch.backends.cpu.get_cpu_capability()


class _OneDnnProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - as torch declares it
        if kwargs:
            return func(*args, **kwargs)
        if func is aten.mm.default and _is_large(*args):
            return _product(*args)
        if func is aten.addmm.default and args[0].dim() == 1 and _is_large(*args[1:]):
            return _product(args[1], args[2], args[0])
        if func is aten.bmm.default and len(args[0]) == 1:
            first, second = args[0][0], args[1][0]
            if _is_large(first, second):
                return _product(first, second)[None]
        if func is aten.baddbmm_.default and len(args[0]) == 1:
            first, second = args[1][0], args[2][0]
            if _is_large(first, second):
                return args[0].add_(_product(first, second))
        return func(*args)


def _is_large(first: Tensor, second: Tensor) -> bool:
    return (
        first.dtype == second.dtype in DTYPES
        and first.layout == second.layout == torch.strided
        and first.device.type == second.device.type == "cpu"
        and first.numel() * second.shape[-1] >= SMALLEST
    )


def _product(first: Tensor, second: Tensor, bias: Tensor | None = None) -> Tensor:
    if not (second.is_contiguous() or second.mT.is_contiguous()):
        second = second.contiguous()  # of another layout, oneDNN takes a thousand times as long
    product: Tensor = torch.ops.mkldnn._linear_pointwise(first, second.mT, bias, "none", [], "")
    return product
