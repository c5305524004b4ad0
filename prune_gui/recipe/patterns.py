"""Writing the globs that mean a given set of parameters: the way back from `select`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from prune_gui.checkpoint import TensorInfo
from prune_gui.recipe.selector import select


def patterns_for(wanted: Collection[str], tensors: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Return short globs that choose exactly `wanted` among the parameters that can be pruned.

    For example ``("encoder.layer.*", "!*.bias", "!*.LayerNorm.*")``; exact names where nothing
    shorter will do.

    Args:
        wanted: names of parameters that can be pruned; others are left out.
        tensors: of the whole checkpoint.
    """
    prunable = [tensor for tensor in tensors if not tensor.not_prunable]
    wanted = set(wanted)
    names = [tensor.name for tensor in prunable if tensor.name in wanted]
    if len(names) < 2:
        return tuple(map(_literal, names))
    patterns = _with_exclusions(names, [t.name for t in prunable if t.name not in wanted])
    chosen = select(patterns, prunable)
    # An alias, or an unusual name, can make a pattern match more or less than it was written for.
    if len(patterns) <= len(names) and [tensor.name for tensor in chosen] == names:
        return tuple(patterns)
    return tuple(map(_literal, names))


def _with_exclusions(wanted: Sequence[str], others: Sequence[str]) -> list[str]:
    """Include the largest modules, and exclude the others within them by what their names share."""
    kept = {pattern for name in wanted for pattern in _kinds(name)}
    harmless = {name: [p for p in _kinds(name) if p not in kept] for name in others}
    in_the_way = [name for name in others if not harmless[name]]
    includes = list(_modules_without(in_the_way, wanted))
    unwanted = [tensor.name for tensor in select(includes, map(_bare, others))]
    return [*includes, *(f"!{pattern}" for pattern in _cover([harmless[n] for n in unwanted]))]


def _kinds(name: str) -> Iterator[str]:
    """Yield globs for parameters like `name`: of the same last part, and under a like module."""
    *modules, last = name.split(".")
    if modules:
        yield f"*.{_literal(last)}"
    for part in modules[1:]:
        if part and not part.isdigit():
            yield f"*.{_literal(part)}.*"


def _cover(choices: Sequence[Sequence[str]]) -> list[str]:
    """Return few strings such that every choice has one of them."""
    picked: list[str] = []
    left = [choice for choice in choices if choice]
    while left:
        counts = Counter(text for choice in left for text in choice)
        picked.append(counts.most_common(1)[0][0])
        left = [choice for choice in left if picked[-1] not in choice]
    for text in list(picked):
        fewer = set(picked) - {text}
        if all(fewer.intersection(choice) for choice in choices):
            picked.remove(text)
    return picked


def _modules_without(unwanted: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield globs for the largest modules that hold wanted and no unwanted parameters."""
    waiting = [("", wanted, unwanted)]
    while waiting:
        prefix, inside, outside = waiting.pop()
        if len(inside) == 1:
            yield _literal(inside[0])
            continue
        groups: dict[str, tuple[list[str], list[str]]] = {}
        for names, which in ((inside, 0), (outside, 1)):
            for name in names:
                end = name.find(".", len(prefix))
                groups.setdefault(name[: end + 1] or name, ([], []))[which].append(name)
        within = [(part, *both) for part, both in groups.items() if both[0]]
        if outside or len(within) == 1:
            waiting += reversed(within)
        else:
            yield f"{_literal(prefix)}*"


def _bare(name: str) -> TensorInfo:
    return TensorInfo(name, (), "float32")


@lru_cache(4096)
def _literal(name: str) -> str:
    """Return a glob for exactly `name`, which may hold anything."""
    escaped = re.sub(r"[*?\[,]|^\s|\s$", r"[\g<0>]", name)
    # A leading "!" would exclude; a glob cannot hold "!" alone, so that it goes with a neighbour.
    return re.sub(r"^!", "[ -!]", escaped)
