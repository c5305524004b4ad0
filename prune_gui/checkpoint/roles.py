"""What tensors are for each other where a weight is computed from several of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.language import later

ENDINGS: Final = ("_g", "_u", ".original", ".original0")
"""Of the names by which a group of tensors is found."""
PARAMETRIZED: Final = re.compile(r"(?P<module>(?:.*\.)?)parametrizations\.(?P<weight>[^.]+)\.[^.]+")

DIRECTION: Final = later(
    "direction of the weight-normalized {weight}: a zero here is a zero there, and what stays "
    "grows to the same norm"
)
MAGNITUDE: Final = later("magnitude of the weight-normalized {weight}")
SPECTRAL: Final = later(
    "what the spectrally normalized {weight} is made from: a zero here is a zero there, and the "
    "rest is divided by another norm"
)
ITERATION: Final = later("vector of the power iteration for the spectral norm of {weight}")
ORIGINAL: Final = later(
    "what the parametrized {weight} is made from: a zero here need not be a zero there"
)
OF_WEIGHT_NORM: Final = later("magnitude of a weight norm")
OF_ITERATION: Final = later("vector of a power iteration")


class Role(NamedTuple):
    """What one tensor is for a weight.

    Attributes:
        text: in a few words; see `TensorInfo.role`.
        spared: why pruning leaves it alone; see `TensorInfo.spared`.
    """

    text: str
    spared: str | None = None


def roles(tensors: Mapping[str, TensorInfo]) -> dict[str, Role]:
    """Return the roles of those tensors that have one, by name.

    Known are torch.nn.utils.weight_norm and spectral_norm, their successors in
    torch.nn.utils.parametrizations, and any other parametrization by its originals.
    """
    found: dict[str, Role] = {}
    for name in tensors:
        if name.endswith(ENDINGS):
            found.update(_of_group(name, tensors))
    return found


def _of_group(name: str, tensors: Mapping[str, TensorInfo]) -> Iterator[tuple[str, Role]]:
    """Yield the roles of the tensors of a group, found by the name of one of them."""
    stem, parametrized = name[:-2], PARAMETRIZED.fullmatch(name)
    if parametrized:
        weight = f"{parametrized['module']}{parametrized['weight']}"
        yield from _of_parametrization(name.rpartition(".")[0], weight, tensors)
    elif name.endswith("_g") and _are_norm(tensors[name], tensors.get(f"{stem}_v")):
        yield from _of_weight_norm(name, f"{stem}_v", stem)
    elif name.endswith("_u") and _is_vector(tensors[name], tensors.get(f"{stem}_orig")):
        yield f"{stem}_orig", Role(later(SPECTRAL, weight=stem))
        yield from _of_iteration(stem, stem, tensors)


def _of_parametrization(
    group: str, weight: str, tensors: Mapping[str, TensorInfo]
) -> Iterator[tuple[str, Role]]:
    first, second, original = f"{group}.original0", f"{group}.original1", f"{group}.original"
    if first in tensors and _are_norm(tensors[first], tensors.get(second)):
        yield from _of_weight_norm(first, second, weight)
    elif first in tensors:
        number = 0
        while (name := f"{group}.original{number}") in tensors:
            yield name, Role(later(ORIGINAL, weight=weight))
            number += 1
    elif original in tensors:
        stage = 0
        while stage < 8 and f"{group}.{stage}._u" not in tensors:
            stage += 1
        spectral = _is_vector(tensors.get(f"{group}.{stage}._u"), tensors[original])
        yield original, Role(later(SPECTRAL if spectral else ORIGINAL, weight=weight))
        if spectral:
            yield from _of_iteration(f"{group}.{stage}.", weight, tensors)


def _of_weight_norm(magnitude: str, direction: str, weight: str) -> Iterator[tuple[str, Role]]:
    yield magnitude, Role(later(MAGNITUDE, weight=weight), OF_WEIGHT_NORM)
    yield direction, Role(later(DIRECTION, weight=weight))


def _of_iteration(
    stem: str, weight: str, tensors: Mapping[str, TensorInfo]
) -> Iterator[tuple[str, Role]]:
    for name in (f"{stem}_u", f"{stem}_v"):
        if name in tensors:
            yield name, Role(later(ITERATION, weight=weight), OF_ITERATION)


def _are_norm(magnitude: TensorInfo, direction: TensorInfo | None) -> bool:
    """Tell whether one can be the norms of the other along all dimensions but one, or none."""
    if direction is None or len(direction.shape) < 2:
        return False
    if magnitude.numel == 1:
        return True
    pairs = list(zip(magnitude.shape, direction.shape, strict=False))
    of_one_dimension = sum(size != 1 for size in magnitude.shape) == 1
    same_rank = len(magnitude.shape) == len(direction.shape)
    return same_rank and of_one_dimension and all(one in (1, size) for one, size in pairs)


def _is_vector(vector: TensorInfo | None, weight: TensorInfo | None) -> bool:
    """Tell whether one can be a singular vector of the other."""
    if vector is None or weight is None:
        return False
    return len(vector.shape) == 1 and vector.numel in weight.shape and len(weight.shape) > 1
