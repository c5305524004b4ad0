"""Writing the globs that mean a given set of parameters: the way back from `select`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

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
    module = _common_module(names)
    others = [t.name for t in prunable if t.name.startswith(module) and t.name not in wanted]
    for patterns in sorted(_proposals(names, others), key=lambda some: len("".join(some))):
        if len(patterns) > len(names):
            continue
        # An alias, or an unusual name, can make a glob match more or less than it was written for.
        if [tensor.name for tensor in select(patterns, prunable)] == names:
            return tuple(patterns)
    return tuple(map(_literal, names))


def _proposals(wanted: Sequence[str], others: Sequence[str]) -> Iterator[list[str]]:
    """Yield globs that include modules, or what the wanted names share, and exclude the rest."""
    kinds = [tuple(_kinds(name)) for name in wanted]
    kept = set().union(*kinds)
    harmless = {name: [p for p in _kinds(name) if p not in kept] for name in others}
    in_the_way = [name for name in others if not harmless[name]]
    includes = list(_modules_without(in_the_way, wanted))
    yield [*includes, *_exclusions(includes, harmless)]
    prefix = _literal(_common_module(wanted))
    for kind in _shared(kinds):
        include = [prefix + kind]
        if not select(include, map(_bare, in_the_way)):
            yield [*include, *_exclusions(include, harmless)]


def _shared(kinds: Sequence[Sequence[str]]) -> list[str]:
    """Return what all have, in the order of the first."""
    shared = list(kinds[0])
    for others in kinds:
        if not shared:
            break
        shared = [kind for kind in shared if kind in others]
    return shared


def _common_module(names: Sequence[str]) -> str:
    """Return the dotted path that all names begin with, and its last dot; "" if there is none."""
    first, last = min(names), max(names)  # what these two share, all share
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    common = "".join(letter for letter, _ in same)
    return common[: common.rfind(".") + 1]


def _exclusions(includes: list[str], harmless: Mapping[str, list[str]]) -> list[str]:
    """Return globs that exclude what is included and not wanted."""
    unwanted = select(includes, map(_bare, harmless))
    return [f"!{pattern}" for pattern in _cover([harmless[tensor.name] for tensor in unwanted])]


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
    # White space may part a glob from conditions, which a name may look like from its first letter.
    first = r"^[a-z](?=\w*[:<>=])"
    escaped = re.sub(rf"[*?\[,\s]|{first}", r"[\g<0>]", name)
    # A leading "!" would exclude; a glob cannot hold "!" alone, so that it goes with a neighbour.
    return re.sub(r"^!", "[ -!]", escaped)
