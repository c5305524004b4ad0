"""Which elements an update prunes: by any recipe on the weights as they are now."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from prune_gui.checkpoint.in_memory import InMemory
from prune_gui.checkpoint.parameters import MASK_SUFFIX, ORIGINAL_SUFFIX
from prune_gui.pruning.amount import units_wanted
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.pruning.selection.device_select import kept_on_device, select_portably
from prune_gui.pruning.selection.keys import DeviceKeys, ranking_dtype
from prune_gui.recipe.amounts import with_amount
from prune_gui.recipe.recipe import Recipe, Step
from prune_gui.recipe.resolution import resolve
from prune_gui.recipe.selector import protected_in, select_in
from prune_gui.training.packed_mask import PackedMask
from prune_gui.training.ranks import Ranks, is_sharded, joined, local, local_part, whole


def at_sparsity(recipe: Recipe, sparsity: float | None) -> Recipe:
    """Return a recipe whose steps prune up to a sparsity; None: the recipe as it is.

    Raises:
        RecipeError: a step has no amount.
    """
    if sparsity is None:
        return recipe
    steps = [with_amount(step, float(sparsity)) for step in recipe.steps]
    return recipe.with_steps(tuple(map(_reaching, steps)))


def _reaching(step: Step) -> Step:
    method = step.method
    if "amount_of" not in type(method).model_fields:
        return step
    return step.model_copy(update={"method": method.model_copy(update={"amount_of": "reach"})})


def prune(
    recipe: Recipe, parameters: Mapping[str, Tensor], masks: Mapping[str, PackedMask]
) -> dict[str, PackedMask]:
    """Return the masks of what was pruned before, and is pruned by a recipe.

    Magnitudes are ranked where the weights are: on their device, and of weights that are divided
    over processes, by exchanging histograms. For other methods the targets are copied to memory,
    whole. Both prune the same elements.

    Args:
        parameters: by the names that the recipe uses.
        masks: of the parameters that were pruned before.

    Raises:
        RecipeError: a step cannot be applied.
        TrainingError: magnitudes cannot be ranked over these processes.
    """
    result = dict(masks)
    on_processor = all(p.device.type == "cpu" and not is_sharded(p) for p in parameters.values())
    for step in recipe.steps:
        if not step.enabled:
            continue
        only = recipe.with_steps((step,))
        checkpoint = InMemory(parameters)
        protected = protected_in(checkpoint, recipe.protect)
        found = (info.name for info in select_in(checkpoint, step.targets))
        names = [name for name in found if name not in protected]
        if not on_processor and _ranks_magnitudes(step):
            targets = {name: parameters[name] for name in names}
            result |= _prune_magnitudes(step.method, targets, result)  # type: ignore[arg-type]
        else:
            result |= _resolve(only, parameters, names, result)
    return result


def _ranks_magnitudes(step: Step) -> bool:
    method = step.method
    return (
        isinstance(method, L1UnstructuredMethod)
        and method.ranks_weights
        and not method.own_amounts
        and method.max_sparsity == 1
        and method.scope != "row"
    )


def _resolve(
    recipe: Recipe,
    parameters: Mapping[str, Tensor],
    targets: Sequence[str],
    masks: Mapping[str, PackedMask],
) -> dict[str, PackedMask]:
    tensors = dict(parameters)
    for name in targets:  # in this order on all processes
        tensors[name] = whole(parameters[name].detach()).cpu()
    for name, mask in masks.items():
        kept = ~whole_mask(mask, parameters[name]).cpu()
        tensors[name + ORIGINAL_SUFFIX] = tensors.pop(name)
        tensors[name + MASK_SUFFIX] = kept
    resolution = resolve(recipe, InMemory(tensors))
    pruned = {name: ~resolution.mask(name) for name in targets if resolution.counts[name][0]}
    return {
        name: PackedMask.of(local_part(mask.to(parameters[name].device), parameters[name]))
        for name, mask in pruned.items()
    }


def whole_mask(mask: PackedMask, parameter: Tensor) -> Tensor:
    """Return where a parameter is pruned, bool, from the parts of all processes."""
    return joined(mask.pruned().to(torch.uint8), parameter).bool()


def _prune_magnitudes(
    method: L1UnstructuredMethod, targets: Mapping[str, Tensor], masks: Mapping[str, PackedMask]
) -> dict[str, PackedMask]:
    groups = [list(targets)] if method.scope == "global" else [[name] for name in targets]
    result = {}
    for names in groups:
        ranks = Ranks([targets[name] for name in names])
        weights = [local(targets[name]) for name in names]
        pruned = [_pruned(masks.get(name), own) for name, own in zip(names, weights, strict=True)]
        total = sum(targets[name].numel() for name in names)
        before = int(ranks.total(torch.stack([own.count_nonzero() for own in pruned]).sum()))
        wanted = units_wanted(
            method.amount, method.amount_of, remaining=total - before, total=total
        )
        count = min(wanted, total - before)
        lowest_ones = lowest(weights, [~own for own in pruned], count, ranks)
        for name, own, more in zip(names, pruned, lowest_ones, strict=True):
            result[name] = PackedMask.of(own | more)
    return result


def _pruned(mask: PackedMask | None, weight: Tensor) -> Tensor:
    return torch.zeros_like(weight, dtype=torch.bool) if mask is None else mask.pruned()


def lowest(
    scores: Sequence[Tensor], candidates: Sequence[Tensor], count: int, ranks: Ranks
) -> Iterator[Tensor]:
    """Yield where the candidates are, bool, whose absolute scores are the `count` lowest of all.

    Of equal ones, those of earlier tensors and lower flat index come first.
    """
    if not count:
        yield from (torch.zeros_like(own) for own in candidates)
        return
    dtype = ranking_dtype({own.dtype for own in scores})
    keys = deque(
        DeviceKeys.of(own.to(dtype).contiguous(), candidate.contiguous(), largest_first=False)
        for own, candidate in zip(scores, candidates, strict=True)
    )
    kept = (
        select_portably(keys, count, processes=ranks)
        if ranks.are_several
        else kept_on_device(keys, count)
    )
    for one, candidate in zip(kept, candidates, strict=True):
        yield candidate & ~one


def replace(
    weight: Tensor, mask: PackedMask, share: float, growth_scores: Tensor
) -> tuple[PackedMask, int]:
    """Prune the smallest kept weights of a parameter, and grow as many of the pruned elements.

    Args:
        weight: the parameter.
        share: of the kept elements, in [0, 1]; no more are replaced than were pruned before.
        growth_scores: of the shape of `weight`; elements with the largest absolute ones grow.

    Returns:
        The mask afterwards, and the number of elements that grew.
    """
    ranks, pruned = Ranks([weight]), mask.pruned()
    pruned_count = int(ranks.total(pruned.count_nonzero()))
    count = min(round(share * (weight.numel() - pruned_count)), pruned_count)
    [dropped] = lowest([local(weight)], [~pruned], count, ranks)
    [stay] = lowest([local(growth_scores)], [pruned], pruned_count - count, ranks)
    return PackedMask.of(dropped | stay), count
