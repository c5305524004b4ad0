"""The order of modules that the numbers in their paths give."""

from __future__ import annotations

from prune_gui.architecture.blocks import NUMBER

NaturalKey = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]
"""For each component of a path the words, with "*" for numbers, and the numbers."""


def natural_key(path: str) -> NaturalKey:
    """Return a key that sorts "conv2" before "conv10", component by component."""
    return tuple((NUMBER.sub("*", part), numbers(part)) for part in path.split("."))


def numbers(component: str) -> tuple[tuple[int, str], ...]:
    """Return keys that sort the numbers in a component of a path; they may have any length."""
    digits = (found.lstrip("0") for found in NUMBER.findall(component))
    return tuple((len(number), number) for number in digits)


def runs_before(first: NaturalKey, second: NaturalKey) -> bool:
    """Return whether the numbers in two paths say that one module runs before the other.

    They do if the first components that differ have the same words and different numbers.
    """
    for one, other in zip(first, second, strict=False):
        if one != other:
            return one[0] == other[0] and one[1] < other[1]
    return False
