"""Which parameters a step is for: shell globs over parameter names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import translate
from re import compile as compile_pattern

from prune_gui.checkpoint import TensorInfo


def select(patterns: Sequence[str], tensors: Iterable[TensorInfo]) -> list[TensorInfo]:
    """Return the tensors that match any pattern and no excluding one, in the given order.

    A pattern is a shell glob over the whole name or an alias of it; ``*`` spans dots. One that
    begins with ``!`` excludes. With excluding patterns alone, everything else is meant.
    """
    wanted = [p for p in patterns if not p.startswith("!")] or ["*"]
    unwanted = [p.removeprefix("!") for p in patterns if p.startswith("!")]
    includes = compile_pattern("|".join(map(translate, wanted))).match
    excludes = compile_pattern("|".join(map(translate, unwanted)) or r"(?!)").match
    return [
        tensor
        for tensor in tensors
        if any(map(includes, (tensor.name, *tensor.aliases)))
        and not any(map(excludes, (tensor.name, *tensor.aliases)))
    ]
