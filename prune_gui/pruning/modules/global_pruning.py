"""One step over the entries of many parameters together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.container import mask_on_top
from prune_gui.pruning.modules.custom import CustomFromMask
from prune_gui.pruning.modules.magnitudes import magnitudes
from prune_gui.pruning.modules.reparametrization import PrunedTensor, keep, unchanged_on_error
from prune_gui.pruning.selection.keys import ranking_dtype

Key = tuple[nn.Module, str]


def global_unstructured(
    parameters: Iterable[Key],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[Key, Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prune several parameters in one step that ranks all their entries together.

    Of equal entries those of the earlier parameter go first, which torch leaves open. Unlike torch,
    this takes a generator, counts a parameter once however often it is named, and keeps one mask
    for a parameter that several of the modules share; a call that fails changes none of the
    modules.

    Args:
        parameters: pairs of a module and the name of a parameter of it.
        pruning_method: a class of methods with `PRUNING_TYPE = "unstructured"`, ours or torch's.
        importance_scores: per pair, scores of the parameter's shape, ranked in its place.
        **kwargs: for the method's constructor, as `amount`: a share of all entries still there, or
            a whole number of them.

    Raises:
        TypeError: `parameters` is not iterable, `importance_scores` not a dictionary, or the method
            not unstructured.
        ValueError: there are no parameters, or fewer entries than `amount`.
        AttributeError, KeyError, AssertionError: as `BasePruningMethod.apply`.

    Example:
        >>> net = nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))
        >>> pairs = [(layer, "weight") for layer in net]
        >>> global_unstructured(pairs, pruning_method=L1Unstructured, amount=10)
        >>> sum(int((layer.weight_mask == 0).sum()) for layer in net)
        10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("parameters must be an iterable of pairs of a module and a name.")
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("importance_scores must be a dictionary from (module, name) to a tensor.")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"{pruning_method} is of type {method.PRUNING_TYPE!r}; only unstructured methods can "
            "rank the entries of several parameters together."
        )
    tied = _find(parameters)
    scores = _join([_scores(aliases, given) for aliases in tied])
    mask = _join([reduce(keep, (tensor.mask() for tensor in aliases)) for aliases in tied])
    mask = mask_on_top(method, scores, mask.to(scores))

    with unchanged_on_error(*(tensor.module for aliases in tied for tensor in aliases)):
        parts = torch.split(mask, [aliases[0].orig.numel() for aliases in tied])
        for aliases, part in zip(tied, parts, strict=True):
            for tensor in aliases:
                CustomFromMask.apply(tensor.module, tensor.name, part.view(tensor.orig.shape))


def _find(parameters: Iterable[Key]) -> list[list[PrunedTensor]]:
    """Find each parameter once, in the order given, with all the names it goes by."""
    tied: dict[int, list[PrunedTensor]] = {}
    for module, name in dict.fromkeys((module, name) for module, name in parameters):
        tensor = PrunedTensor.find(module, name)
        tied.setdefault(id(tensor.orig), []).append(tensor)
    if not tied:
        raise ValueError("No parameters were given; there is nothing to prune.")
    return list(tied.values())


def _scores(aliases: Sequence[PrunedTensor], given: Mapping[Key, Tensor]) -> Tensor:
    """Return the scores of one parameter, given under whichever of its names."""
    for tensor in aliases:
        if (tensor.module, tensor.name) in given:
            return tensor.scores(given[tensor.module, tensor.name])
    return aliases[0].scores()


def _join(tensors: Iterable[Tensor]) -> Tensor:
    """Return the entries of all tensors in one row, where the first tensor lives."""
    parts = [magnitudes(tensor).reshape(-1) for tensor in tensors]
    dtype = ranking_dtype({part.dtype for part in parts})
    return torch.cat([part.to(parts[0].device, dtype) for part in parts])
