"""Pruning coupled groups of a torch module in two ways that must compute the same."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def randomize(model: nn.Module, seed: int) -> nn.Module:
    """Fill all tensors, batch norm statistics included, so that signals keep their magnitude."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        if tensor.ndim > 1:
            fan_in = tensor[0].numel()
            tensor.normal_(0, (2 / fan_in) ** 0.5, generator=generator)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=generator)
        else:
            tensor.uniform_(-0.5, 0.7, generator=generator)
            if name.endswith("weight"):
                tensor.add_(1)
    return model.eval()


def random_units(groups, seed: int) -> list[np.ndarray]:
    """Return for each group which units are pruned: half of them, at random."""
    random = np.random.default_rng(seed)
    return [random.permutation(group.size) < group.size // 2 for group in groups]


def pruned_channels(state, groups, units) -> dict[tuple[str, int], torch.Tensor]:
    """Return bool (length,) for each tensor and dimension that some group has."""
    marked: dict[tuple[str, int], torch.Tensor] = {}
    for group, pruned in zip(groups, units, strict=True):
        for name, dim in {(member.name, member.dim) for member in group.members}:
            found = group.channels(name, dim, state[name].shape[dim], pruned)
            assert (name, dim) not in marked
            marked[name, dim] = torch.from_numpy(found)
    return marked


def zeroed(model: nn.Module, groups, units) -> nn.Module:
    """Return a copy of a model in which all members of pruned units are zero."""
    model = copy.deepcopy(model)
    state = model.state_dict()
    for (name, dim), marked in pruned_channels(state, groups, units).items():
        state[name].movedim(dim, 0)[marked] = 0
    return model


def sliced(model: nn.Module, groups, units) -> nn.Module:
    """Return a copy of a model without the pruned units."""
    state = dict(model.state_dict())
    for (name, dim), marked in pruned_channels(state, groups, units).items():
        state[name] = state[name].movedim(dim, 0)[~marked].movedim(0, dim).contiguous()
    model = copy.deepcopy(model)
    for path, module in model.named_modules():
        for name, old in [*module._parameters.items(), *module._buffers.items()]:
            new = state.get(f"{path}.{name}" if path else name)
            if old is not None:
                tensors = module._parameters if name in module._parameters else module._buffers
                tensors[name] = nn.Parameter(new) if tensors is module._parameters else new
        if isinstance(module, nn.modules.conv._ConvNd):
            if module.groups > 1 and module.groups == module.in_channels:
                module.groups = module.weight.shape[0]
            module.out_channels = module.weight.shape[0]
            module.in_channels = module.weight.shape[1] * module.groups
        elif isinstance(module, nn.Linear):
            module.out_features, module.in_features = module.weight.shape
        elif isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.num_features = len(module.running_mean)
    return model


@torch.no_grad()
def assert_slicing_changes_nothing(model: nn.Module, groups, inputs: torch.Tensor, seed: int = 0):
    """Check that a model computes the same with zeros as without the channels.

    Returns:
        The largest change by pruning, relative to the largest output; and the sliced model.
    """
    units = random_units(groups, seed)
    small = sliced(model, groups, units)
    dense, masked, found = (net(inputs) for net in (model, zeroed(model, groups, units), small))
    scale = masked.abs().max()
    assert torch.isfinite(masked).all()
    assert (found - masked).abs().max() <= 1e-5 * scale
    return float((dense - masked).abs().max() / scale), small
