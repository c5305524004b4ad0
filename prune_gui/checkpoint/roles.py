"""The roles of tensors that a reparametrized weight is computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.language import deferred

GROUP_SUFFIXES: Final = ("_g", "_u", ".original", ".original0")
"""Suffixes of one tensor of each group; the others are found from its name."""
PARAMETRIZED: Final = re.compile(r"(?P<module>(?:.*\.)?)parametrizations\.(?P<weight>[^.]+)\.[^.]+")

DIRECTION: Final = deferred(
    "direction of the weight-normalized {weight}: zeros here are zeros in that weight, and its "
    "other elements are scaled up to the same norm"
)
MAGNITUDE: Final = deferred("magnitude of the weight-normalized {weight}")
SPECTRAL: Final = deferred(
    "original of the spectrally normalized {weight}: zeros here are zeros in that weight, and its "
    "other elements are divided by another norm"
)
ITERATION: Final = deferred("vector of the power iteration for the spectral norm of {weight}")
ORIGINAL: Final = deferred(
    "original of the parametrized {weight}: zeros here are not necessarily zeros in that weight"
)
WEIGHT_NORM_REASON: Final = deferred("magnitude of a weight norm")
ITERATION_REASON: Final = deferred("vector of a power iteration")


class Role(NamedTuple):
    """The role of a tensor in the computation of a weight.

    Attributes:
        text: the role in a few words; see `TensorInfo.role`.
        spared: why the tensor is not pruned; see `TensorInfo.spared`.
    """

    text: str
    spared: str | None = None


def roles(tensors: Mapping[str, TensorInfo]) -> dict[str, Role]:
    """Return the roles of the tensors that have one, by name.

    Recognizes torch.nn.utils.weight_norm and spectral_norm, their successors in
    torch.nn.utils.parametrizations, and the originals of any other parametrization.
    """
    roles_by_name: dict[str, Role] = {}
    for name in tensors:
        if name.endswith(GROUP_SUFFIXES):
            roles_by_name.update(_group_roles(name, tensors))
    return roles_by_name


def _group_roles(name: str, tensors: Mapping[str, TensorInfo]) -> Iterator[tuple[str, Role]]:
    """Yield the roles of the tensors of a group, given the name of one of them."""
    stem, parametrized = name[:-2], PARAMETRIZED.fullmatch(name)
    if parametrized:
        weight = f"{parametrized['module']}{parametrized['weight']}"
        yield from _parametrization_roles(name.rpartition(".")[0], weight, tensors)
    elif name.endswith("_g") and _is_magnitude(tensors[name], tensors.get(f"{stem}_v")):
        yield from _weight_norm_roles(name, f"{stem}_v", stem)
    elif name.endswith("_u") and _is_singular_vector(tensors[name], tensors.get(f"{stem}_orig")):
        yield f"{stem}_orig", Role(deferred(SPECTRAL, weight=stem))
        yield from _iteration_roles(stem, stem, tensors)


def _parametrization_roles(
    group: str, weight: str, tensors: Mapping[str, TensorInfo]
) -> Iterator[tuple[str, Role]]:
    first, second, original = f"{group}.original0", f"{group}.original1", f"{group}.original"
    if first in tensors and _is_magnitude(tensors[first], tensors.get(second)):
        yield from _weight_norm_roles(first, second, weight)
    elif first in tensors:
        index = 0
        while (name := f"{group}.original{index}") in tensors:
            yield name, Role(deferred(ORIGINAL, weight=weight))
            index += 1
    elif original in tensors:
        step = 0
        while step < 8 and f"{group}.{step}._u" not in tensors:
            step += 1
        spectral = _is_singular_vector(tensors.get(f"{group}.{step}._u"), tensors[original])
        yield original, Role(deferred(SPECTRAL if spectral else ORIGINAL, weight=weight))
        if spectral:
            yield from _iteration_roles(f"{group}.{step}.", weight, tensors)


def _weight_norm_roles(magnitude: str, direction: str, weight: str) -> Iterator[tuple[str, Role]]:
    yield magnitude, Role(deferred(MAGNITUDE, weight=weight), WEIGHT_NORM_REASON)
    yield direction, Role(deferred(DIRECTION, weight=weight))


def _iteration_roles(
    stem: str, weight: str, tensors: Mapping[str, TensorInfo]
) -> Iterator[tuple[str, Role]]:
    for name in (f"{stem}_u", f"{stem}_v"):
        if name in tensors:
            yield name, Role(deferred(ITERATION, weight=weight), ITERATION_REASON)


def _is_magnitude(magnitude: TensorInfo, direction: TensorInfo | None) -> bool:
    """Return whether the shapes allow `magnitude` to be the norms of `direction`.

    The norms are over all dimensions, or over all but one.
    """
    if direction is None or len(direction.shape) < 2:
        return False
    if magnitude.numel == 1:
        return True
    pairs = list(zip(magnitude.shape, direction.shape, strict=False))
    of_one_dimension = sum(size != 1 for size in magnitude.shape) == 1
    same_rank = len(magnitude.shape) == len(direction.shape)
    return same_rank and of_one_dimension and all(one in (1, size) for one, size in pairs)


def _is_singular_vector(vector: TensorInfo | None, weight: TensorInfo | None) -> bool:
    """Return whether the shapes allow `vector` to be a singular vector of `weight`."""
    if vector is None or weight is None:
        return False
    return len(vector.shape) == 1 and vector.numel in weight.shape and len(weight.shape) > 1
