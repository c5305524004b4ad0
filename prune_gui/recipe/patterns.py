"""Finding short globs that select a given set of parameters: the inverse of `select`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

from prune_gui.checkpoint import TensorInfo
from prune_gui.recipe.selector import select


def patterns_for(wanted: Collection[str], tensors: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Return short globs that select exactly `wanted` among the prunable parameters.

    For example ``("encoder.layer.*", "!*.bias", "!*.LayerNorm.*")``; exact names where no shorter
    globs select the same, and for tensors that are no weights (see `TensorInfo.kind`).

    Args:
        wanted: names of prunable parameters; other names are ignored.
        tensors: all tensors of the checkpoint.
    """
    prunable = [tensor for tensor in tensors if not tensor.not_prunable]
    wanted = set(wanted)
    names = [tensor.name for tensor in prunable if tensor.name in wanted]
    if len(names) < 2:
        return tuple(map(exact_pattern, names))
    if others := [t.name for t in prunable if t.kind is not None and t.name in wanted]:
        weights = patterns_for(wanted, [t for t in prunable if t.kind is None])
        both = (*weights, *map(exact_pattern, others))
        is_exact = [tensor.name for tensor in select(both, prunable)] == names
        return both if is_exact else tuple(map(exact_pattern, names))
    module = _common_module(names)
    others = [t.name for t in prunable if t.name.startswith(module) and t.name not in wanted]
    for patterns in sorted(_proposals(names, others), key=lambda globs: len("".join(globs))):
        if len(patterns) > len(names):
            continue
        # An alias or an unusual name can make a glob match more or fewer names than intended.
        if [tensor.name for tensor in select(patterns, prunable)] == names:
            return tuple(patterns)
    return tuple(map(exact_pattern, names))


@lru_cache(4096)
def exact_pattern(name: str) -> str:
    """Return a glob that matches exactly `name`, which may contain any character."""
    # White space separates a glob from conditions; a name may look like a condition.
    first = r"^[a-z](?=\w*[:<>=])"
    escaped = re.sub(rf"[*?\[,\s]|{first}", r"[\g<0>]", name)
    # A leading "!" would exclude, and "[!]" is no valid glob: a range that contains "!" escapes it.
    return re.sub(r"^!", "[ -!]", escaped)


def _proposals(wanted: Sequence[str], others: Sequence[str]) -> Iterator[list[str]]:
    """Yield lists of globs: each includes modules or a shared glob, and excludes the others."""
    globs_of_wanted = [tuple(_general_globs(name)) for name in wanted]
    unsafe = set().union(*globs_of_wanted)
    excludable = {name: [p for p in _general_globs(name) if p not in unsafe] for name in others}
    not_excludable = [name for name in others if not excludable[name]]
    includes = list(_modules_without(not_excludable, wanted))
    yield [*includes, *_exclusions(includes, excludable)]
    prefix = exact_pattern(_common_module(wanted))
    for glob in _shared(globs_of_wanted):
        include = [prefix + glob]
        if not select(include, map(_bare, not_excludable)):
            yield [*include, *_exclusions(include, excludable)]


def _shared(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the items that are in all lists, in the order of the first list."""
    shared = list(lists[0])
    for items in lists:
        if not shared:
            break
        shared = [item for item in shared if item in items]
    return shared


def _common_module(names: Sequence[str]) -> str:
    """Return the longest dotted path that all names begin with, with its last dot, or ""."""
    first, last = min(names), max(names)  # a common prefix of these two is one of all names
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    common = "".join(letter for letter, _ in same)
    return common[: common.rfind(".") + 1]


def _exclusions(includes: list[str], safe: Mapping[str, list[str]]) -> list[str]:
    """Return globs that exclude the names that `includes` match."""
    unwanted = select(includes, map(_bare, safe))
    return [f"!{pattern}" for pattern in _cover([safe[tensor.name] for tensor in unwanted])]


def _general_globs(name: str) -> Iterator[str]:
    """Yield globs for parameters with the last component of `name`, or under a similar module."""
    *modules, last = name.split(".")
    if modules:
        yield f"*.{exact_pattern(last)}"
    for part in modules[1:]:
        if part and not part.isdigit():
            yield f"*.{exact_pattern(part)}.*"


def _cover(choices: Sequence[Sequence[str]]) -> list[str]:
    """Return a small set of strings such that every choice contains one of them (greedy)."""
    picked: list[str] = []
    uncovered = [choice for choice in choices if choice]
    while uncovered:
        counts = Counter(text for choice in uncovered for text in choice)
        picked.append(counts.most_common(1)[0][0])
        uncovered = [choice for choice in uncovered if picked[-1] not in choice]
    for text in list(picked):
        fewer = set(picked) - {text}
        if all(fewer.intersection(choice) for choice in choices):
            picked.remove(text)
    return picked


def _modules_without(unwanted: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield globs for the largest modules that contain wanted and no unwanted parameters."""
    waiting = [("", wanted, unwanted)]
    while waiting:
        prefix, inside, outside = waiting.pop()
        if len(inside) == 1:
            yield exact_pattern(inside[0])
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
            yield f"{exact_pattern(prefix)}*"


def _bare(name: str) -> TensorInfo:
    return TensorInfo(name, (), "float32")
