"""The coupled groups of a checkpoint, from the table of its architecture.

Names are matched once per checkpoint, in time linear in the number of parameters; the groups of a
space are built when they are first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from prune_gui.architecture.building import build_group, group_of_blocks, joined
from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.matching import (
    NUMBER,
    Slot,
    blocks_of,
    is_complete,
    outside_slot,
    slots_of,
)
from prune_gui.architecture.tables import (
    ArchitectureTable,
    SpaceRule,
    load_table,
    own_tables,
)
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.language import deferred, join_items, tr
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.pruning.lazy import Lazy

CHANNELS: Final = "channels"
"""The space of `channel_groups`."""
OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if b and a % b == 0 else 0,
}


def table_for(checkpoint: Checkpoint, path: Path | None = None) -> ArchitectureTable | None:
    """Return the table of the architecture of a checkpoint; None if there is none.

    It is found by the type of the model in config.json, or else from the names of the parameters:
    the table that has most of them as members, and of these the one with the longest signature.

    Args:
        checkpoint: the open checkpoint.
        path: a table to use instead.

    Raises:
        RecipeError: the table at `path` cannot be read.
    """
    found = _analysis(checkpoint, path)
    return found.table if found else None


def spaces(checkpoint: Checkpoint, path: Path | None = None) -> dict[str, SpaceRule]:
    """Return the spaces of units that a checkpoint has, by name; none if it has no table.

    If the type of the model is not one of the table, a space is loadable only if config.json has
    the fields that count its units, and a space of blocks only if the user named the table. Without
    a table, there are the channels of convolutional networks and plain chains, if the network is
    understood.

    Args:
        checkpoint: the open checkpoint.
        path: a table to use instead of that of `table_for`.

    Raises:
        RecipeError: the table at `path` cannot be read.
    """
    found = _analysis(checkpoint, path)
    if found is None:
        return {}
    return {name: _checked(found, name, checkpoint, own=path is None) for name in found.groups}


def _checked(found: _Analysis, name: str, checkpoint: Checkpoint, *, own: bool) -> SpaceRule:
    """Return a rule, not loadable if the fields that depend on its units are not known.

    Any field of another type may depend on the blocks: lists, indices of outputs, patterns.
    """
    space = found.rules[name]
    types = found.table.model_types if found.table else ()
    if checkpoint.model_type in types or not checkpoint.model_type:
        return space
    has_fields = all(
        any(key in checkpoint.hf_config for key in (rule.field, *rule.aliases))
        for rule in space.config
        if rule.value in ("units", "proportional", "pin")
    )
    is_loadable = has_fields and (bool(space.members) or not own)
    return space if is_loadable else space.model_copy(update={"loadable": False})


def is_guessed(checkpoint: Checkpoint, path: Path | None = None) -> bool:
    """Return whether shapes and the order of the file alone make the groups likely.

    Args:
        checkpoint: the open checkpoint.
        path: a table to use instead of that of `table_for`.

    Raises:
        RecipeError: the table at `path` cannot be read.
    """
    found = _analysis(checkpoint, path)
    return found is not None and found.guessed


def counts(checkpoint: Checkpoint, path: Path | None = None) -> Mapping[str, int]:
    """Return the counts of the table that are known for a checkpoint, by name.

    Args:
        checkpoint: the open checkpoint.
        path: a table to use instead of that of `table_for`.

    Raises:
        RecipeError: the table at `path` cannot be read.
    """
    found = _analysis(checkpoint, path)
    return found.counts if found else {}


def coupled_groups(
    checkpoint: Checkpoint, space: str, path: Path | None = None
) -> list[CoupledGroup]:
    """Return the groups of a space, in the order of the blocks.

    Parameters have the names of `checkpoint.tensors`. Blocks that lack a member that is not
    optional have no group.

    Args:
        checkpoint: the open checkpoint.
        space: the name of the space.
        path: a table to use instead of that of `table_for`.

    Raises:
        RecipeError: the table cannot be read, the checkpoint has no such space, or a tensor does
            not have the shape that the table expects.
    """
    found = _analysis(checkpoint, path)
    if found is None:
        raise RecipeError(
            tr(
                "{file}: the architecture of the network is not known. Name the file of a table "
                "of it.",
                file=checkpoint.path.name,
            )
        )
    if space not in found.groups:
        raise RecipeError(
            tr(
                "{file}: there are no units of the kind {space!r}. Choose one of: {spaces}.",
                file=checkpoint.path.name,
                space=space,
                spaces=join_items(found.groups) or "-",
            )
        )
    return list(found.groups[space]())


@dataclass(frozen=True, slots=True)
class _Analysis:
    """What is known of the architecture of a checkpoint.

    Attributes:
        table: the table; None if the channels follow from names and shapes.
        rules: the rules of the spaces, by name.
        counts: the counts that are known.
        groups: by name of the space, its groups.
        guessed: whether shapes and the order of the file alone make the groups likely.
    """

    table: ArchitectureTable | None
    rules: Mapping[str, SpaceRule]
    counts: dict[str, int]
    groups: dict[str, Lazy[list[CoupledGroup]]]
    guessed: bool = False


_cache: WeakKeyDictionary[Checkpoint, dict[object, _Analysis | None]] = WeakKeyDictionary()
_cache_lock = threading.Lock()


def _analysis(checkpoint: Checkpoint, path: Path | None) -> _Analysis | None:
    stamp = None
    if path is not None:
        try:
            status = path.stat()
            stamp = path.absolute(), status.st_mtime_ns, status.st_size
        except OSError:
            stamp = None  # reading it gives the message
    with _cache_lock:
        cached = _cache.setdefault(checkpoint, {})
        if stamp not in cached or (path is not None and stamp is None):
            cached[stamp] = _analyze(checkpoint, path)
        return cached[stamp]


@gc_paused()
def _analyze(checkpoint: Checkpoint, path: Path | None) -> _Analysis | None:
    table = load_table(path) if path is not None else _recognized(checkpoint)
    if table is None:
        return _chains(checkpoint)
    known = _counts(table, checkpoint.hf_config)
    blocks = blocks_of(table, _named(checkpoint.tensors.values()))
    slots = {}
    candidates = slots_of(table, blocks)
    for name, space in table.spaces.items():
        if space.outside and blocks:
            outside = outside_slot(space, _named(checkpoint.tensors.values()))
            candidates[name] = [outside] if outside else []
        if not set(space.count_names()) <= known.keys():
            continue
        kept = [
            slot
            for slot in candidates.get(name, [])
            if not space.members or is_complete(space, slot, known)
        ]
        if kept:
            slots[name] = kept
    groups = {name: _lazy_groups(checkpoint, table, name, slots[name], known) for name in slots}
    return _Analysis(table, table.spaces, known, groups)


def _chains(checkpoint: Checkpoint) -> _Analysis | None:
    """Return the channels of a network without a table; None if it is not understood."""
    chains = channel_groups({name: info.shape for name, info in checkpoint.tensors.items()})
    if not chains.groups:
        return None
    groups = {CHANNELS: Lazy.of_value(list(chains.groups))}
    rules = {CHANNELS: SpaceRule(title=deferred("channels"))}
    return _Analysis(None, rules, {}, groups, not chains.confirmed)


def _lazy_groups(
    checkpoint: Checkpoint,
    table: ArchitectureTable,
    name: str,
    slots: Sequence[Slot],
    known: Mapping[str, int],
) -> Lazy[list[CoupledGroup]]:
    file, space = checkpoint.path.name, table.spaces[name]

    @gc_paused()
    def build() -> list[CoupledGroup]:
        if not space.members:
            return [group_of_blocks(file, name, slot) for slot in slots]
        built = [build_group(file, name, space, slot, known) for slot in slots]
        if not space.across:
            return built
        return joined(file, [slot.stack for slot in slots], built)

    return Lazy(build)


def _named(tensors: Iterable[TensorInfo]) -> Iterable[tuple[str, TensorInfo]]:
    """Yield each name of each parameter, aliases included."""
    for info in tensors:
        yield info.name, info
        for alias in info.aliases:
            yield alias, info


def _recognized(checkpoint: Checkpoint) -> ArchitectureTable | None:
    """Return the own table of a checkpoint."""
    tables = own_tables()
    for table in tables:
        if checkpoint.model_type in table.model_types:
            return table
    # Blocks are alike: one name for each pattern of names is enough, as if all were in block 0.
    examples: dict[str, TensorInfo] = {}
    for name, info in _named(checkpoint.tensors.values()):
        examples.setdefault(NUMBER.sub("0", name), info)
    sizes = [_member_count(table, examples) for table in tables]
    best = max(range(len(tables)), key=lambda i: (sizes[i], len(tables[i].signature)), default=0)
    return tables[best] if any(sizes) else None


def _member_count(table: ArchitectureTable, tensors: Mapping[str, TensorInfo]) -> int:
    """Return how many tensors are members of a space of a table."""
    return len(
        {
            found.name
            for name, slots in slots_of(table, blocks_of(table, tensors.items())).items()
            if table.spaces[name].members
            for slot in slots
            for index, several in slot.found.items()
            if not table.spaces[name].members[index].shared_length
            for found in several
        }
    )


def _counts(table: ArchitectureTable, config: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a table that are known and positive."""
    values = {
        name: next(filter(None, (_evaluate(text, config) for text in texts)), 0)
        for name, texts in table.counts.items()
    }
    return {name: value for name, value in values.items() if value > 0}


def _evaluate(text: str, config: Mapping[str, int]) -> int:
    """Return the value of an expression from left to right; 0 if it is unknown."""
    first, *rest = text.split(" ")
    values = [int(word) if word.isdecimal() else config.get(word) for word in (first, *rest[1::2])]
    result = values[0]
    for operator, value in zip(rest[::2], values[1:], strict=True):
        if result is None or value is None:
            return 0
        result = OPERATIONS[operator](result, value)
    return max(0, result or 0)
