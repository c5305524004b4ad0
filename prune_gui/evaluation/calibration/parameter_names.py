"""The names of parameters as in a checkpoint of a model, without those of wrappers around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prune_gui.checkpoint.parameters import (
    COMPILED_PREFIX,
    DATA_PARALLEL_PREFIX,
    MASK_SUFFIX,
    ORIGINAL_SUFFIX,
)

RUNNING_MEAN, RUNNING_VAR = "running_mean", "running_var"
DATA_PARALLEL: Final = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def named_modules(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield all modules, each with the prefix of its parameters in the state dict.

    A wrapper of `torch.compile` or of data parallelism adds nothing to the prefix of the module
    inside. A module with several names is yielded under each of them.
    """
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            own = f"{name}."
            yield from named_modules(child, prefix + ("" if own == _wrapper(module) else own))


def parameter_names(model: nn.Module) -> dict[Tensor, list[str]]:
    """Return the names of each parameter of a floating point dtype; tied ones have several.

    The parameter `X_orig` beside a buffer `X_mask` (see `torch.nn.utils.prune`) has the name `X`.
    """
    names: dict[Tensor, list[str]] = {}
    for prefix, module in named_modules(model):
        for key, parameter in module._parameters.items():
            if parameter is not None and parameter.is_floating_point():
                name = key.removesuffix(ORIGINAL_SUFFIX)
                is_pair = name + MASK_SUFFIX in module._buffers
                names.setdefault(parameter, []).append(prefix + (name if is_pair else key))
    return names


def batch_norm_names(model: nn.Module) -> dict[Tensor, list[str]]:
    """Return the names of the running means and variances of batch norms."""
    names: dict[Tensor, list[str]] = {}
    for prefix, module in named_modules(model):
        if isinstance(module, _BatchNorm):
            for key in (RUNNING_MEAN, RUNNING_VAR):
                buffer = module._buffers.get(key)
                if buffer is not None:
                    names.setdefault(buffer, []).append(prefix + key)
    return names


def weight_of(module: nn.Module) -> nn.Parameter | None:
    """Return the parameter `weight` of a module, or that from which a mask makes it."""
    return module._parameters.get("weight", module._parameters.get("weight" + ORIGINAL_SUFFIX))


def _wrapper(module: nn.Module) -> str:
    """Return the prefix that a wrapper adds to the names of its module; "" if it is none."""
    if isinstance(module, DATA_PARALLEL):
        return DATA_PARALLEL_PREFIX
    # the class of compiled modules is slow to import, and its name is private
    is_compiled = any(base.__name__ == "OptimizedModule" for base in type(module).__mro__)
    return COMPILED_PREFIX if is_compiled else ""
