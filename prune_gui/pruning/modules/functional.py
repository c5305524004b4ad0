"""Functions that prune parameters of modules in place: one, or several in a global step.

Each replaces the parameter `<name>` of a module by the parameter `<name>_orig` and the buffer
`<name>_mask`. `<name>` becomes an attribute that is computed from the two whenever it is read, so
that it is never that of earlier weights. A further call prunes among the remaining elements. A call
that fails changes nothing.

They raise the errors of `BasePruningMethod.apply` and of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import reduce
from operator import and_

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.amount import Amount
from prune_gui.pruning.modules.masking import is_plain, keep, mask_like
from prune_gui.pruning.modules.pruning_method import BasePruningMethod, mask_on_top
from prune_gui.pruning.modules.reparametrization import (
    MASK,
    PrunedTensor,
    pruning_hooks,
    unchanged_on_error,
)
from prune_gui.pruning.modules.standard_methods import (
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    RandomStructured,
    RandomUnstructured,
    magnitudes,
    ranks_elements,
)
from prune_gui.pruning.norms.unit_norms import Order
from prune_gui.pruning.selection.keys import ranking_dtype


def identity(module: nn.Module, name: str) -> nn.Module:
    """Prune nothing, but make the parameter a pruned one, with a mask of ones.

    Example:
        >>> identity(nn.Linear(2, 3), "bias").bias_mask
        tensor([1., 1., 1.])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: nn.Module, name: str, amount: Amount) -> nn.Module:
    """Prune elements at random, see `RandomUnstructured`.

    Args:
        amount: a share in [0, 1] of the remaining elements, or a whole number of them.

    Example:
        >>> random_unstructured(nn.Linear(2, 3), "weight", amount=1).weight_mask.sum()
        tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: nn.Module, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> nn.Module:
    """Prune the elements of smallest absolute value, see `L1Unstructured`.

    Args:
        amount: a share in [0, 1] of the remaining elements, or a whole number of them.
        importance_scores: of the parameter's shape; their absolute values are ranked.

    Example:
        >>> list(l1_unstructured(nn.Linear(2, 3), "weight", amount=0.2).state_dict())
        ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: nn.Module, name: str, amount: Amount, dim: int) -> nn.Module:
    """Prune channels at random, see `RandomStructured`.

    Args:
        amount: a share in [0, 1] of the channels with remaining elements, or a number of them.
        dim: the dimension that indexes the channels.

    Example:
        >>> pruned = random_structured(nn.Linear(5, 3), "weight", amount=3, dim=1)
        >>> (pruned.weight_mask.sum(dim=0) == 0).sum()
        tensor(3)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: nn.Module,
    name: str,
    amount: Amount,
    n: Order,
    dim: int,
    importance_scores: Tensor | None = None,
) -> nn.Module:
    """Prune the channels of smallest norm, see `LnStructured`.

    Args:
        amount: a share in [0, 1] of the channels with remaining elements, or a number of them.
        n: order of the norm: a number, inf, -inf, "fro" or "nuc".
        dim: the dimension that indexes the channels.
        importance_scores: of the parameter's shape, ranked instead of its weights.

    Example:
        >>> ln_structured(nn.Conv2d(5, 3, 2), "weight", amount=0.4, n=2, dim=1).weight_mask.sum()
        tensor(36.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: nn.Module, name: str, mask: Tensor) -> nn.Module:
    """Prune where a custom mask is 0, see `CustomFromMask`.

    Args:
        mask: of the parameter's shape, any dtype; only 0 and 1.

    Example:
        >>> custom_from_mask(nn.Linear(5, 3), "bias", mask=torch.tensor([0, 1, 0])).bias_mask
        tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: nn.Module, name: str) -> nn.Module:
    """Make pruning permanent: `<name>` is a parameter again; `_orig` and `_mask` are removed.

    Pruned elements are +0, even if torch pruned them: its product may leave -0 or NaN there.
    `ValueError` is raised if the parameter is not pruned.
    """
    for key, hook in pruning_hooks(module, name).items():
        mask = getattr(module, name + MASK)
        own: object = type(hook).remove
        is_safe = own is BasePruningMethod.remove
        with nullcontext() if is_safe else unchanged_on_error(module):
            hook.remove(module)
            del module._forward_pre_hooks[key]
        if not isinstance(hook, BasePruningMethod):
            parameter = getattr(module, name)
            parameter.data = keep(parameter.data, mask)
        return module
    raise ValueError(f"'{name}' of {module} has not been pruned; there is nothing to remove.")


def is_pruned(module: nn.Module) -> bool:
    """Return whether any parameter of a module or of its submodules is pruned.

    Example:
        >>> layer = nn.Linear(5, 7)
        >>> is_pruned(layer)
        False
        >>> is_pruned(random_unstructured(layer, "weight", amount=0.2))
        True
    """
    return any(
        isinstance(hook, reference.BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )


Key = tuple[nn.Module, str]


def global_unstructured(
    parameters: Iterable[Key],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[Key, Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prune several parameters in one step that ranks all their elements together.

    Of equal elements, those of earlier parameters are pruned first; torch leaves this open. Unlike
    torch, this accepts a generator, counts a parameter once even if it is listed twice, and makes
    one mask for a parameter that several modules share. A call that fails changes no module.

    Args:
        parameters: pairs of a module and the name of a parameter of it.
        pruning_method: a class of methods with `PRUNING_TYPE = "unstructured"`, ours or torch's.
        importance_scores: per pair, scores of the parameter's shape, ranked instead of its weights.
        **kwargs: arguments of the method's constructor, such as `amount`: a share of all remaining
            elements, or a whole number of them.

    Raises:
        TypeError: `parameters` are no pairs, `importance_scores` not a dictionary, or the method
            not unstructured.
        ValueError: there are no parameters, or fewer elements than `amount`.
        AttributeError, KeyError, AssertionError: as `BasePruningMethod.apply`.

    Example:
        >>> net = nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))
        >>> pairs = [(layer, "weight") for layer in net]
        >>> global_unstructured(pairs, pruning_method=L1Unstructured, amount=10)
        >>> sum(int((layer.weight_mask == 0).sum()) for layer in net)
        10
    """
    pairs = _pairs(parameters)
    scores_by_key = {} if importance_scores is None else importance_scores
    if not isinstance(scores_by_key, dict):
        raise TypeError("importance_scores must be a dictionary from (module, name) to a tensor.")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"{pruning_method} is of type {method.PRUNING_TYPE!r}; only unstructured methods can "
            "rank the elements of several parameters together."
        )
    tied = _find_distinct(pairs)
    masks = _masks(method, tied, scores_by_key)
    with unchanged_on_error(*(tensor.module for aliases in tied for tensor in aliases)):
        for aliases, mask in zip(tied, masks, strict=True):
            for tensor in aliases:
                custom = CustomFromMask(mask.to(tensor.orig.device))
                tensor.store(mask_like(tensor.orig, custom.mask), custom.as_hook(tensor))


def _pairs(parameters: object) -> list[Key]:
    if isinstance(parameters, Iterable) and not isinstance(parameters, (str, nn.Module, Tensor)):
        pairs = list(parameters)
        wrong = [pair for pair in pairs if not _is_pair(pair)]
        if not wrong:
            return [(module, name) for module, name in pairs]
        told = f"{_kind(wrong[0])} in a {type(parameters).__name__}"
    else:
        told = _kind(parameters)
    raise TypeError(
        "parameters must be pairs of a module and the name of a parameter of it, such as "
        f'[(model.fc1, "weight"), (model.fc2, "weight")], but there is {told}. For all linear '
        'layers of a model: [(module, "weight") for module in model.modules() if '
        "isinstance(module, torch.nn.Linear)]."
    )


def _is_pair(found: object) -> bool:
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return False
    return isinstance(found[0], nn.Module) and isinstance(found[1], str)


def _kind(found: object) -> str:
    if isinstance(found, (tuple, list)):
        return f"a {type(found).__name__} of ({', '.join(type(part).__name__ for part in found)})"
    return f"a {type(found).__name__}"


def _find_distinct(parameters: Iterable[Key]) -> list[list[PrunedTensor]]:
    tied: dict[int, list[PrunedTensor]] = {}
    for module, name in dict.fromkeys((module, name) for module, name in parameters):
        tensor = PrunedTensor.find(module, name)
        tied.setdefault(id(tensor.orig), []).append(tensor)
    if not tied:
        raise ValueError("No parameters were given; there is nothing to prune.")
    return list(tied.values())


def _masks(
    method: BasePruningMethod,
    tied: Sequence[Sequence[PrunedTensor]],
    scores_by_key: Mapping[Key, Tensor],
) -> Iterator[Tensor]:
    values = [_values(aliases, scores_by_key) for aliases in tied]
    devices = {own.device for own in values}
    if ranks_elements(method) and all(map(is_plain, values)) and len(devices) == 1:
        yield from method.kept_elements(values, [_remaining(aliases) for aliases in tied])
        return
    mask = _concatenate(reduce(keep, (tensor.mask() for tensor in aliases)) for aliases in tied)
    scores = _concatenate(values)
    mask = mask_on_top(method, scores, mask.to(scores))
    for own_values, own_mask in zip(
        values, torch.split(mask, [v.numel() for v in values]), strict=True
    ):
        yield own_mask.view(own_values.shape)


def _remaining(aliases: Sequence[PrunedTensor]) -> Tensor | None:
    masks = [mask for mask in (tensor.remaining() for tensor in aliases) if mask is not None]
    return reduce(and_, map(Tensor.bool, masks)) if len(masks) > 1 else next(iter(masks), None)


def _values(aliases: Sequence[PrunedTensor], scores_by_key: Mapping[Key, Tensor]) -> Tensor:
    for tensor in aliases:
        if (tensor.module, tensor.name) in scores_by_key:
            return tensor.values(scores_by_key[tensor.module, tensor.name])
    return aliases[0].values()


def _concatenate(tensors: Iterable[Tensor]) -> Tensor:
    vectors = [magnitudes(tensor).reshape(-1) for tensor in tensors]
    dtype = ranking_dtype({vector.dtype for vector in vectors})
    return torch.cat([vector.to(vectors[0].device, dtype) for vector in vectors])
