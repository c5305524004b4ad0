"""The repeated blocks of a network, and the roles of the parameters in them, found from the names.

A block is a numbered module, such as "encoder.layer.3". Blocks whose paths differ only in their
numbers form a family; a parameter has the same role in all blocks of a family.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from prune_gui.architecture.projections import ATTENTION, FUSED_PARAMETERS, Projection, projection
from prune_gui.checkpoint import tree
from prune_gui.checkpoint.tree import shared_start, stage_of, without_shared_start
from prune_gui.memory import gc_paused

NUMBER: Final = re.compile(r"\d+")
NUMBERED: Final = re.compile(r"\D*\d+")
"""A component of a path that may number a block: "0", "layer_0", "denselayer2"."""
MIN_MATRICES: Final = 2.0
"""Mean number of matrices of a block. Numbered modules with fewer are layers, not blocks."""
MIN_NAMED_SIBLINGS: Final = 3.0
"""Mean number of siblings numbered in their names, so that "attn1" and "attn2" are not blocks."""
LOOSE_COLUMNS: Final = 6  # maximum number of parameters in one row outside of blocks
ATTENTION_PROJECTIONS: Final = frozenset(
    {Projection.Q, Projection.K, Projection.V, Projection.QKV, Projection.O}
)
_RANKS: Final = {kind: rank for rank, kind in enumerate(Projection)}
_STAGE_RANKS: Final = {
    tree.FIRST_NORM: -0.5,
    tree.ATTENTION_STAGE: _RANKS[Projection.O] + 0.4,
    tree.SECOND_NORM: _RANKS[Projection.O] + 0.5,
}
"""The ranks of norms before, in and after the attention."""
NaturalKey = tuple[tuple[str, tuple[tuple[int, str], ...]], ...]
"""For each component of a path the words, with "*" for numbers, and the numbers."""


class BlockRole(NamedTuple):
    """A column: the enclosing module in the block ("self_attn" or ""), and "q" or "conv1.bias"."""

    group: str
    label: str


class BlockRow(NamedTuple):
    """A row of a section.

    Outside of blocks, the label is a module or "", and captions are names below it.
    """

    label: str
    names: tuple[str | None, ...]
    captions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks of a family ("encoder.layer.*"), or all parameters outside of blocks ("")."""

    title: str
    roles: tuple[BlockRole, ...]
    rows: tuple[BlockRow, ...]


@gc_paused()
def sections(shapes: Mapping[str, tuple[int, ...]], *, vectors: bool = False) -> list[Section]:
    """Arrange parameters by blocks and roles, in the order in which they run.

    Those outside of blocks are before or after all blocks.
    Takes time linear in the number of parameters. Only matrices decide what a block is; `vectors`
    have less than two dimensions.
    """
    matrices = [name for name, shape in shapes.items() if len(shape) > 1]
    families = _families(matrices)
    members: dict[str, list[tuple[str, str]]] = defaultdict(list)
    first: list[str] = []
    last: list[str] = []
    for name in shapes if vectors else matrices:
        # The innermost block counts.
        for block in _numbered_prefixes(name):
            if (pattern := _pattern(block)) in families:
                members[pattern].append((block, name))
                break
        else:
            (first if _runs_first(name, default=not members) else last).append(name)
    if not members:
        first, last = [*first, *last], []
    ordered = sorted(members, key=lambda pattern: "decoder" in pattern)
    found = [_section(pattern, members[pattern]) for pattern in ordered]
    before, after = (
        [Section("", (), tuple(_loose_rows(names)))] if names else [] for names in (first, last)
    )
    return [*before, *found, *after]


def _runs_first(name: str, *, default: bool) -> bool:
    """Return whether a parameter outside of blocks runs before them."""
    stages = {stage_of(part) for part in name.split(".")}
    return tree.EMBEDDING_STAGE in stages or (default and tree.HEAD_STAGE not in stages)


def _families(matrices: Sequence[str]) -> set[str]:
    by_depth: dict[int, dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for name in matrices:
        for block in _numbered_prefixes(name):
            by_depth[block.count(".")][_pattern(block)].append((block, name))
    families: set[str] = set()
    claimed: set[str] = set()
    for depth in sorted(by_depth, reverse=True):
        for pattern, members in by_depth[depth].items():
            free = [(block, name) for block, name in members if name not in claimed]
            if _is_family(free):
                families.add(pattern)
                claimed.update(name for _, name in free)
    return families


def _is_family(members: Sequence[tuple[str, str]]) -> bool:
    """Return whether numbered modules are blocks: several alike, with several matrices each."""
    blocks = {block for block, _ in members}
    if len(blocks) < 2 or len(members) < MIN_MATRICES * len(blocks):
        return False
    roles = Counter(name[len(block) :] for block, name in members)
    if 2 * max(roles.values()) <= len(blocks):
        return False
    if all(block.rpartition(".")[2].isdecimal() for block in blocks):
        return True
    parents = {block.rpartition(".")[0] for block in blocks}
    return len(blocks) >= MIN_NAMED_SIBLINGS * len(parents)


def _numbered_prefixes(name: str) -> Iterator[str]:
    module = name.rpartition(".")[0]
    while module:
        parent, _, last = module.rpartition(".")
        if last[-1:].isdecimal() and NUMBERED.fullmatch(last):
            yield module
        module = parent


@lru_cache(maxsize=1 << 12)
def _pattern(block: str) -> str:
    return NUMBER.sub("*", block)


def _numbers(path: str) -> tuple[int, ...]:
    return tuple(map(int, NUMBER.findall(path)))


def _section(pattern: str, members: Sequence[tuple[str, str]]) -> Section:
    blocks: dict[str, dict[str, str]] = defaultdict(dict)
    for block, name in members:
        blocks[block][name[len(block) + 1 :]] = name
    roles = _ordered({path: name for block in blocks.values() for path, name in block.items()})
    rows = [
        BlockRow(".".join(map(str, _numbers(block))), tuple(map(blocks[block].get, roles)))
        for block in sorted(blocks, key=_numbers)
    ]
    return Section(pattern, tuple(roles.values()), tuple(rows))


def _ordered(examples: Mapping[str, str]) -> dict[str, BlockRole]:
    """Return roles by path: attention first, other projections, the rest as in the file."""
    roles = {path: _role(path, name) for path, name in examples.items()}
    ranks = {path: _rank(name) for path, name in examples.items()}
    group_ranks: dict[str, float] = {}
    first: dict[str, int] = {}
    for index, (path, role) in enumerate(roles.items()):
        group_ranks[role.group] = min(ranks[path], group_ranks.get(role.group, ranks[path]))
        for starred in (_pattern(role.group), _pattern(path.rpartition(".")[0])):
            first.setdefault(starred, index)

    def key(path: str) -> tuple[object, ...]:
        group, module = roles[path].group, path.rpartition(".")[0]
        of_group = (
            group_ranks[group] if group else ranks[path],
            first[_pattern(group)],
            _numbers(group),
            group,
        )
        of_module = ranks[path], first[_pattern(module)], _numbers(module), module
        return *of_group, *of_module, path != f"{module}.weight"

    return {path: roles[path] for path in sorted(roles, key=key)}


def _role(path: str, name: str) -> BlockRole:
    module, _, leaf = path.rpartition(".")
    group, _, last = module.rpartition(".")
    kind = projection(name)
    if kind in ATTENTION_PROJECTIONS:
        parts = module.split(".")
        around = parts if leaf in FUSED_PARAMETERS else parts[:-1]  # "attn_q" is in no attention
        found = next((i for i, part in enumerate(around) if ATTENTION.search(part)), len(parts) - 2)
        group = ".".join(parts[: found + 1])
    if leaf in FUSED_PARAMETERS:
        leaf = leaf.rpartition("_")[2]
    label = kind.value if kind else last
    if leaf == "weight" and label:
        return BlockRole(group, label)
    return BlockRole(group, f"{label}.{leaf}" if label else leaf)


def _rank(name: str) -> float:
    kind = projection(name)
    if kind is not None:
        return _RANKS[kind]
    stages = map(stage_of, name.split("."))
    return next((_STAGE_RANKS[stage] for stage in stages if stage in _STAGE_RANKS), len(_RANKS))


def _loose_rows(names: Sequence[str]) -> Iterator[BlockRow]:
    """Yield a row per module that has several of the parameters, then one for all others.

    Names that differ only in their numbers are in numerical order; those of files often are not.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[_pattern(name)].append(name)
    ordered = {pattern: iter(sorted(found, key=natural_key)) for pattern, found in alike.items()}
    names = [next(ordered[_pattern(name)]) for name in names]
    depth = _common_depth(names)
    by_stage: dict[str, list[str]] = defaultdict(list)
    for name in names:
        parts = name.split(".")
        by_stage[".".join(parts[: depth + 1]) if len(parts) > depth + 1 else ""].append(name)
    singles = [name for stage, found in by_stage.items() if len(found) == 1 for name in found]
    singles += by_stage.pop("", []) if len(by_stage.get("", [])) > 1 else []
    for stage, found in by_stage.items():
        if len(found) > 1:
            yield from _wrapped(stage, found, len(stage) + 1)
    yield from _wrapped("", singles, len(".".join(names[0].split(".")[:depth])) + bool(depth))


def _wrapped(label: str, names: Sequence[str], skip: int) -> Iterator[BlockRow]:
    lines = math.ceil(len(names) / LOOSE_COLUMNS)
    columns = math.ceil(len(names) / max(1, lines))
    for start in range(0, len(names), max(1, columns)):
        of_row = tuple(names[start : start + columns])
        captions = tuple(name[skip:].removesuffix(".weight") for name in of_row)
        yield BlockRow("" if start else label, of_row, captions)


def _common_depth(names: Iterable[str]) -> int:
    modules = [name.split(".")[:-1] for name in names]
    if len(modules) == 1:
        return 0
    shared = len(shared_start(modules))
    return min(shared, min(map(len, modules)) - 1) if shared else 0


class ShortName(NamedTuple):
    """The part of a name that distinguishes it from others: in the block "3", "q"."""

    block: str
    label: str


def short_names(names: Sequence[str]) -> list[ShortName]:
    """Return short names of parameters or modules that differ within a block, if the names do."""
    blocks = [_first_block(name) for name in names]
    paths = [name[len(block) + bool(block) :] for name, block in zip(names, blocks, strict=True)]
    labels = list(map(_label, paths, names))
    counts = Counter(zip(blocks, labels, strict=True))
    short = without_shared_start([f"{block}." for block in set(blocks) if block])
    return [
        ShortName(
            short.get(f"{block}.", "").rstrip("."), label if counts[block, label] == 1 else path
        )
        for block, label, path in zip(blocks, labels, paths, strict=True)
    ]


def _first_block(name: str) -> str:
    """Return the path of the outermost numbered module that contains a parameter or module."""
    parts = name.split(".")
    return ".".join(parts[: next((i for i, one in enumerate(parts[:-1], 1) if one.isdecimal()), 0)])


def _label(path: str, name: str) -> str:
    role = _role(path, name)
    is_number = role.label[:1].isdecimal()
    return f"{role.group}.{role.label}" if is_number and role.group else role.label


def natural_key(path: str) -> NaturalKey:
    """Return a key that sorts "conv2" before "conv10", component by component."""
    return tuple((NUMBER.sub("*", part), numbers(part)) for part in path.split("."))


def numbers(component: str) -> tuple[tuple[int, str], ...]:
    """Return keys that sort the numbers in a component of a path; they may have any length."""
    digits = (found.lstrip("0") for found in NUMBER.findall(component))
    return tuple((len(number), number) for number in digits)


def runs_before(first: NaturalKey, second: NaturalKey) -> bool:
    """Return whether the first numbers that differ say that one module runs before another."""
    for one, other in zip(first, second, strict=False):
        if one != other:
            return one[0] == other[0] and one[1] < other[1]
    return False
