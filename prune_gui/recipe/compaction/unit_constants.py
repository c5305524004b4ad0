"""The constants that units without weights emit, computed in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch
from torch.nn import functional

from prune_gui.architecture.unit_values import (
    Activation,
    BatchNorm,
    Bias,
    Product,
    Sum,
    Value,
)

BATCH_NORM_EPSILON: Final = 1e-5
"""The default of `torch.nn.BatchNorm2d`, which torchvision's networks use."""

_gelu_tanh = partial(functional.gelu, approximate="tanh")

ACTIVATIONS: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "gelu": functional.gelu,
    "gelu_python": functional.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "leaky_relu": functional.leaky_relu,
    "linear": lambda x: x,
    "mish": functional.mish,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
    "relu6": functional.relu6,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "swish": functional.silu,
    "tanh": torch.tanh,
}
"""Activation functions by the names that transformers gives them."""


def constants(value: Value, vector: Callable[[str], torch.Tensor], count: int) -> torch.Tensor:
    """Return what units emit, float64 (count,).

    A batch norm in evaluation mode computes (x - mean) / sqrt(variance + epsilon) * weight + bias
    (Ioffe and Szegedy 2015).
    """
    inner = partial(constants, vector=vector, count=count)
    match value:
        case Bias(name):
            return torch.zeros(count, dtype=torch.float64) if name is None else vector(name)
        case BatchNorm(before, weight, bias, mean, variance):
            centred = inner(before) - vector(mean)
            result = centred / (vector(variance) + BATCH_NORM_EPSILON).sqrt()
            result = result if weight is None else result * vector(weight)
            return result if bias is None else result + vector(bias)
        case Activation(before, function):
            return ACTIVATIONS[function](inner(before))
        case Sum(first, second):
            return inner(first) + inner(second)
        case Product(first, second):
            return inner(first) * inner(second)


def tensors_of(value: Value) -> set[str]:
    """Return the names of the tensors in an expression."""
    match value:
        case Bias(name):
            return set() if name is None else {name}
        case BatchNorm(before, weight, bias, mean, variance):
            return tensors_of(before) | {name for name in (weight, bias, mean, variance) if name}
        case Activation(before, _):
            return tensors_of(before)
        case Sum(first, second) | Product(first, second):
            return tensors_of(first) | tensors_of(second)


def functions_of(value: Value) -> set[str]:
    """Return the names of the activation functions in an expression."""
    match value:
        case Bias():
            return set()
        case BatchNorm(before):
            return functions_of(before)
        case Activation(before, function):
            return functions_of(before) | {function}
        case Sum(first, second) | Product(first, second):
            return functions_of(first) | functions_of(second)
