"""The properties of a parameter that conditions such as ``size>1M`` compare, one record each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prune_gui.checkpoint import Checkpoint, TensorInfo

    Counts = int | NDArray[np.int64]

Property = frozenset[str] | float
"""Texts, of which one must match a glob; or a number."""


@dataclass(frozen=True, slots=True)
class TextField:
    """A property that is compared with a glob, ignoring case.

    Attributes:
        name: the name in a condition.
        example: a condition, for help texts.
        texts: returns the property of a parameter, given its inferred module types.
        words: returns the conditions that complete the name, for an open checkpoint.
        uses_module_types: whether `texts` uses the module types, which take time to infer.
    """

    name: str
    example: str
    texts: Callable[[TensorInfo, frozenset[str]], frozenset[str]]
    words: Callable[[Checkpoint], Iterable[str]]
    uses_module_types: bool = False


@dataclass(frozen=True, slots=True)
class NumberField:
    """A property of the header that is compared with a number.

    Attributes:
        name: the name in a condition.
        example: a condition, for help texts.
        number: returns the property of a parameter.
    """

    name: str
    example: str
    number: Callable[[TensorInfo], float]


@dataclass(frozen=True, slots=True)
class CountField:
    """A property of what earlier steps pruned, compared with a number.

    Attributes:
        name: the name in a condition.
        example: a condition, for help texts.
        number: returns the property, given the numbers of pruned and of all elements (at least 1),
            or int64 arrays of them with one element per parameter.
    """

    name: str
    example: str
    number: Callable[[Counts, Counts], Counts | float | NDArray[np.float64]]


ConditionField = TextField | NumberField | CountField

_FIELDS: Final[tuple[ConditionField, ...]] = (
    TextField(
        "type",
        "type:Linear",
        lambda _, module_types: module_types,
        lambda checkpoint: sorted(frozenset().union(*checkpoint.module_types.values())),
        uses_module_types=True,
    ),
    TextField(
        "dtype",
        "dtype:bfloat16",
        lambda tensor, _: frozenset((tensor.dtype,)),
        lambda checkpoint: sorted({tensor.dtype for tensor in checkpoint.tensors.values()}),
    ),
    TextField(
        "shape",
        "shape:768x*",
        lambda tensor, _: frozenset(("x".join(map(str, tensor.shape)),)),
        lambda _: ("",),
    ),
    NumberField("dims", "dims>1", lambda tensor: len(tensor.shape)),
    NumberField("size", "size>=1M", lambda tensor: tensor.numel),
    CountField("sparsity", "sparsity>90%", lambda pruned, total: pruned / total),
)
CONDITION_FIELDS: Final[dict[str, ConditionField]] = {field.name: field for field in _FIELDS}
"""The fields of conditions by name."""


def words(checkpoint: Checkpoint) -> list[str]:
    """Return conditions that complete a typed word, and prefixes of conditions on numbers."""
    completed: list[str] = []
    for field in CONDITION_FIELDS.values():
        if isinstance(field, TextField):
            completed += (f"{field.name}:{text}" for text in field.words(checkpoint))
        else:
            completed.append(f"{field.name}>")
    return completed


def examples(*, numbers_only: bool = False) -> str:
    """Return one condition of each field, separated by commas."""
    return ", ".join(
        field.example
        for field in CONDITION_FIELDS.values()
        if not (numbers_only and isinstance(field, TextField))
    )
