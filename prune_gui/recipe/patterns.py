"""Globs that select given parameters, and the parameters that the steps of a recipe match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from re import Match
from typing import TYPE_CHECKING

from prune_gui.checkpoint import TensorInfo
from prune_gui.recipe.selector import (
    CONDITION,
    CONDITION_FIELDS,
    CountProperty,
    protected_in,
    select,
    select_in,
    unmatched_remark,
)

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe.recipe import Recipe, Step


def patterns_for(wanted: Collection[str], tensors: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Return short globs that select exactly `wanted` among the prunable parameters.

    For example ``("encoder.layer.* dims>1", "!*.query.*")``; exact names where none are
    shorter, and for tensors that are no weights.
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
    within = [tensor for tensor in prunable if tensor.name.startswith(module)]
    proposals = list(_proposals(names, [t.name for t in within if t.name not in wanted]))
    matrices = [tensor.name for tensor in within if len(tensor.shape) > 1]
    if set(names) <= set(matrices):
        some = _proposals(names, [name for name in matrices if name not in wanted])
        proposals += [[_of_matrices(glob) for glob in globs] for globs in some]
    for patterns in sorted(proposals, key=lambda globs: len("".join(globs))):
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
    shared = unsafe.intersection(*globs_of_wanted)
    for glob in filter(shared.__contains__, globs_of_wanted[0]):
        include = [prefix + glob]
        if not select(include, map(_bare, not_excludable)):
            yield [*include, *_exclusions(include, excludable)]


def _of_matrices(glob: str) -> str:
    """Return a glob that selects no vectors, such as biases and weights of norms."""
    if glob.startswith("!") or "*" not in glob:
        return glob
    return "dims>1" if glob == "*" else f"{glob} dims>1"


def _common_module(names: Sequence[str]) -> str:
    """Return the longest dotted path that all names begin with, with its last dot, or ""."""
    first, last = min(names), max(names)  # a common prefix of these two is one of all names
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    common = "".join(letter for letter, _ in same)
    return common[: common.rfind(".") + 1]


def _exclusions(includes: list[str], safe: Mapping[str, list[str]]) -> list[str]:
    unwanted = select(includes, map(_bare, safe))
    return [f"!{pattern}" for pattern in _cover([safe[tensor.name] for tensor in unwanted])]


def _general_globs(name: str) -> Iterator[str]:
    *modules, last = name.split(".")
    if modules:
        yield f"*.{exact_pattern(last)}"
        yield f"{exact_pattern(modules[0])}.*"
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


@dataclass(frozen=True, slots=True)
class StepMatch:
    """The parameters that a step matches, and its patterns to note because they match none."""

    number: int
    step: Step
    targets: tuple[str, ...]
    unmatched: tuple[str, ...]


def match_recipe(recipe: Recipe, checkpoint: Checkpoint) -> tuple[StepMatch, ...]:
    """Return the match of each enabled step, as if conditions on sparsity held."""
    protected = protected_in(checkpoint, recipe.protect)
    matches = []
    for number, step in enumerate(recipe.steps, start=1):
        if not step.enabled:
            continue
        reduced = {text: _without_counts(text) for text in step.targets}
        patterns, every_kind = list(filter(None, reduced.values())), step.method.takes_every_kind
        targets = tuple(
            info.name
            for info in select_in(checkpoint, patterns, every_kind=every_kind)
            if not info.not_prunable and info.name not in protected
        )
        unmatched = tuple(
            text
            for text, pattern in reduced.items()
            if pattern and unmatched_remark(pattern, checkpoint)
        )
        matches.append(StepMatch(number, step, targets, unmatched))
    return tuple(matches)


def most_targeted(recipe: Recipe, checkpoint: Checkpoint) -> str | None:
    """Return the first of the parameters that most steps of a recipe target; None if none is."""
    counts = Counter(name for match in match_recipe(recipe, checkpoint) for name in match.targets)
    order = {name: index for index, name in enumerate(checkpoint.tensors)}
    return min(counts, key=lambda name: (-counts[name], order[name]), default=None)


def _without_counts(text: str) -> str:
    """Return a pattern without conditions on what is pruned; "" if it excludes by one of these."""

    def keep(condition: Match[str]) -> str:
        is_on_counts = isinstance(CONDITION_FIELDS.get(condition["field"]), CountProperty)
        return "" if is_on_counts else condition[0]

    excludes = text.startswith("!")
    pattern = text.removeprefix("!")
    stripped = CONDITION.sub(keep, pattern)
    if stripped == pattern:
        return text
    return "" if excludes else stripped.strip() or "*"
