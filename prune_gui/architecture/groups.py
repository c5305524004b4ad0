"""The coupled groups of a checkpoint, from the table of its architecture.

Names are matched once per checkpoint, in time linear in the number of parameters; the groups of a
space are built when they are first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from prune_gui.architecture import matching
from prune_gui.architecture.chains import channel_groups
from prune_gui.architecture.tables import ArchitectureTable, SpaceRule, load_table, own_tables
from prune_gui.architecture.torchvision_layers import Windows
from prune_gui.architecture.unit_values import Reading
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.file_stamps import FileStamps
from prune_gui.language import deferred, join_items
from prune_gui.memory import gc_paused
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.methods.coupled import SPACE_CHOICES

CHANNELS: Final = "channels"  # the space of `channel_groups`
NEURONS: Final = "ffn"
VISION_NEURONS: Final = "vision_ffn"
VISION_TITLE: Final = "FFN neurons of the image model"
VISION_CONFIG: Final = "vision_config"
OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if b and a % b == 0 else 0,
}
_cache: WeakKeyDictionary[Checkpoint, dict[object, Analysis]] = WeakKeyDictionary()
_cache_lock = threading.Lock()


def spaces(checkpoint: Checkpoint, path: Path | None = None) -> dict[str, SpaceRule]:
    """Return the spaces of units that a checkpoint has, by name; none if it has no table.

    A space that does not fit the tensors of another type than those of the table is left out. Units
    of an unknown type are loadable if config.json counts them, and the user named the table or no
    other tensor has such channels. Without a table, convolutional networks and plain chains have
    channels.
    """
    found = analysis(checkpoint, path)
    return {
        name: _checked(found, name, checkpoint, own=path is None)
        for name in found.groups
        if path is not None or _fits(found, name, checkpoint)
    }


def check_table(checkpoint: Checkpoint, path: Path) -> None:
    """Check that a table describes units of a checkpoint, and that they fit its tensors."""
    names = spaces(checkpoint, path)
    if not names:
        raise RecipeError(
            "{path}: the table describes no units of {file}. Check its stacks, its signature "
            "and the names of its members.",
            path=path,
            file=checkpoint.path.name,
        )
    for name in names:
        coupled_groups(checkpoint, name, path)


def _checked(found: Analysis, name: str, checkpoint: Checkpoint, *, own: bool) -> SpaceRule:
    """Return a rule, not loadable if it is not certain what depends on its units.

    Heads, experts and layers of an unknown type depend on code that is not known; other models in
    the file may have the same channels; an unknown type may have other activation functions.
    """
    space = found.rules[name]
    if found.table and name not in found.table.spaces:  # of a model of images, which is plain
        return space
    types = found.table.model_types if found.table else ()
    known = [each in types for each in checkpoint.model_types]
    if any(known[:1]):
        return space
    if any(known):
        is_loadable = not own or not _has_channels(space) or _is_alone(found, name, checkpoint)
        return space if is_loadable else space.model_copy(update={"loadable": False})
    changes: dict[str, object] = {"activation": ()} if own else {}
    is_undivided = all(rule.parts == (1,) for rule in space.members)
    is_plain = is_undivided and _has_channels(space) and _is_alone(found, name, checkpoint)
    has_fields = all(
        any(key in checkpoint.hf_config for key in (rule.field, *rule.aliases))
        for rule in space.config
        if rule.value in ("units", "proportional", "pin") and not rule.model_types
    )
    if known and not (has_fields and (is_plain or not own)):
        changes["loadable"] = False
    return space.model_copy(update=changes)


def _fits(found: Analysis, name: str, checkpoint: Checkpoint) -> bool:
    types = found.table.model_types if found.table else ()
    if not checkpoint.model_types or any(each in types for each in checkpoint.model_types):
        return True
    try:
        found.groups[name]()
    except RecipeError:
        return False
    return True


def _has_channels(space: SpaceRule) -> bool:
    """Return whether units are single channels, such as neurons and tokens."""
    divides = all(rule.dim is not None for rule in space.members)
    return bool(space.members) and divides and not space.size and (space.exact or space.outside)


def _is_alone(found: Analysis, name: str, checkpoint: Checkpoint) -> bool:
    """Return whether no tensor of the text model but the members has as many channels."""
    try:
        groups = found.groups[name]()
    except RecipeError:
        return False
    sizes = {group.size for group in groups}
    members = {member.name for group in groups for member in group.members}
    return all(
        info.name in members
        or sizes.isdisjoint(info.shape)
        or matching.OTHER_MODEL.search(info.name)
        for info in checkpoint.tensors.values()
    )


def coupled_groups(
    checkpoint: Checkpoint, space: str, path: Path | None = None
) -> list[CoupledGroup]:
    """Return the groups of a space, in the order of the blocks."""
    found = analysis(checkpoint, path)
    if not found.rules:
        raise RecipeError(
            "{file}: the architecture of the network is not known. Name the file of a table of it.",
            file=checkpoint.path.name,
        )
    if space in found.refused:
        raise RecipeError(
            "{file} has no units of the kind {space!r}: {reason} Prune other units, or name "
            "the file of a table that fits.",
            file=checkpoint.path.name,
            space=space,
            reason=found.refused[space],
        )
    if space not in found.groups:
        others = join_items(one for one in found.groups if one in SPACE_CHOICES)
        if not others:
            raise RecipeError(
                "{file} has no units of the kind {space!r}. Name the file of a table of them.",
                file=checkpoint.path.name,
                space=space,
            )
        raise RecipeError(
            "{file} has no units of the kind {space!r}. Choose one of: {spaces}.",
            file=checkpoint.path.name,
            space=space,
            spaces=others,
        )
    return list(found.groups[space]())


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known of the architecture of a checkpoint; nothing if it has no rules."""

    table: ArchitectureTable | None = None
    rules: Mapping[str, SpaceRule] = field(default_factory=dict)
    groups: Mapping[str, Lazy[list[CoupledGroup]]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    guessed: bool = False
    readings: Mapping[str, Reading] = field(default_factory=dict)
    windows: Mapping[str, Windows] = field(default_factory=dict)


def analysis(checkpoint: Checkpoint, path: Path | None = None) -> Analysis:
    """Return what is known of the architecture of a checkpoint, by the table at `path` if given.

    The table is else found by the type of the model in config.json, or by the names of the
    parameters: that with most of them as members, then that with the longest signature.
    """
    stamp = None if path is None else FileStamps.of([path.absolute()])
    with _cache_lock:
        cached = _cache.setdefault(checkpoint, {})
        if stamp not in cached:
            cached[stamp] = _analyze(checkpoint, path)
        return cached[stamp]


@gc_paused()
def _analyze(checkpoint: Checkpoint, path: Path | None) -> Analysis:
    table = load_table(path) if path is not None else _recognized(checkpoint)
    if table is None:
        chains = channel_groups({name: info.shape for name, info in checkpoint.tensors.items()})
        if not chains.groups:
            return Analysis()
        groups = {CHANNELS: Lazy.of_value(list(chains.groups))}
        rules = {CHANNELS: SpaceRule(title=deferred("channels"))}
        guessed = not chains.confirmed
        return Analysis(None, rules, groups, {}, guessed, chains.readings, chains.windows)
    known = evaluate_counts(table.counts, checkpoint.hf_config)
    blocks = matching.blocks_of(table, _named(checkpoint.tensors.values())) if table.stacks else []
    slots, refused = {}, {}
    candidates = matching.slots_of(table, blocks)
    for name, space in table.spaces.items():
        if space.groups:
            continue
        if space.outside and blocks:
            outside = matching.network_slot(space, _named(checkpoint.tensors.values()))
            candidates[name] = [outside] if outside else []
        if not set(space.count_names()) <= known.keys():
            continue
        kept = [
            slot
            for slot in candidates.get(name, [])
            if not space.members or matching.is_complete(space, slot, known)
        ]
        if kept and space.outside:
            reason = matching.misfit(table, space, kept[0], checkpoint.tensors.values())
            if reason:
                refused[name] = reason
                continue
        if kept:
            slots[name] = kept
    rules = dict(table.spaces)
    groups = {
        name: _lazy_groups(checkpoint, rules[name], name, slots[name], known) for name in slots
    }
    for name, space in table.spaces.items():
        if space.groups:
            groups[name] = Lazy(partial(matching.written_groups, checkpoint, name, space.groups))
    if path is None and VISION_NEURONS not in rules:
        _add_vision_neurons(checkpoint, {block.stack for block in blocks}, rules, groups)
    return Analysis(table, rules, groups, refused)


def _add_vision_neurons(
    checkpoint: Checkpoint,
    stacks: Set[str],
    rules: dict[str, SpaceRule],
    groups: dict[str, Lazy[list[CoupledGroup]]],
) -> None:
    """Add the neurons of the model of images beside a text model, whose stacks these are.

    config.json gives their number if it has the field, and no other tensor of that model has so
    many channels; else a program must set it in the layers.
    """
    named = {
        name: info
        for name, info in _named(checkpoint.tensors.values())
        if matching.VISION_MODEL.search(name)
        and not any(name.startswith(f"{stack}.") for stack in stacks)
    }
    table = _with_most_members(_examples(named.items())) if named else None
    space = VISION_NEURONS if table and VISION_NEURONS in table.spaces else NEURONS
    if table is None or space not in table.spaces:
        return
    rule = table.spaces[space]
    slots = [
        slot
        for slot in matching.slots_of(table, matching.blocks_of(table, named.items()))[space]
        if matching.is_complete(rule, slot, {})
    ]
    if not slots:
        return
    members = {
        found.name: found.info.shape[rule.members[index].dim or 0]
        for slot in slots
        for index, several in slot.found.items()
        for found in several
    }
    others = {length for name in named.keys() - members.keys() for length in named[name].shape}
    is_alone = others.isdisjoint(members.values())
    fields = [
        field.model_copy(update={"section": VISION_CONFIG})
        for field in rule.config
        if is_alone and f"{VISION_CONFIG}.{field.field}" in checkpoint.hf_config
    ]
    changes = {"title": VISION_TITLE, "config": tuple(fields), "activation": ()}
    rules[VISION_NEURONS] = rule.model_copy(update=changes)
    groups[VISION_NEURONS] = _lazy_groups(checkpoint, rule, VISION_NEURONS, slots, {})


def _lazy_groups(
    checkpoint: Checkpoint,
    space: SpaceRule,
    name: str,
    slots: Sequence[matching.Slot],
    known: Mapping[str, int],
) -> Lazy[list[CoupledGroup]]:
    file = checkpoint.path.name

    @gc_paused()
    def build() -> list[CoupledGroup]:
        if not space.members:
            return [matching.group_of_blocks(file, name, slot) for slot in slots]
        built = [matching.build_group(file, name, space, slot, known) for slot in slots]
        if not space.across:
            return built
        return matching.joined(file, [slot.stack for slot in slots], built)

    return Lazy(build)


def _named(tensors: Iterable[TensorInfo]) -> Iterable[tuple[str, TensorInfo]]:
    for info in tensors:
        yield info.name, info
        for alias in info.aliases:
            yield alias, info


def _recognized(checkpoint: Checkpoint) -> ArchitectureTable | None:
    for model_type in checkpoint.model_types:
        for table in own_tables():
            if model_type in table.model_types:
                return table
    examples = _examples(_named(checkpoint.tensors.values()))
    of_text = {
        name: info for name, info in examples.items() if not matching.OTHER_MODEL.search(name)
    }
    return _with_most_members(of_text) or _with_most_members(examples)


def _examples(named: Iterable[tuple[str, TensorInfo]]) -> dict[str, TensorInfo]:
    """Return one name for each pattern of names, as if all blocks were block 0: they are alike."""
    examples: dict[str, TensorInfo] = {}
    for name, info in named:
        examples.setdefault(matching.NUMBER.sub("0", name), info)
    return examples


def _with_most_members(examples: Mapping[str, TensorInfo]) -> ArchitectureTable | None:
    tables = own_tables()
    sizes = [_member_count(table, examples) for table in tables]
    best = max(range(len(tables)), key=lambda i: (sizes[i], len(tables[i].signature)), default=0)
    return tables[best] if any(sizes) else None


def _member_count(table: ArchitectureTable, tensors: Mapping[str, TensorInfo]) -> int:
    return len(
        {
            found.name
            for name, slots in matching.slots_of(
                table, matching.blocks_of(table, tensors.items())
            ).items()
            if table.spaces[name].members
            for slot in slots
            for index, several in slot.found.items()
            if not table.spaces[name].members[index].shared_length
            for found in several
        }
    )


def evaluate_counts(
    expressions: Mapping[str, Sequence[str]], config: Mapping[str, int]
) -> dict[str, int]:
    """Return the counts by name that are known and positive; see `ArchitectureTable.counts`."""
    values = {
        name: next(filter(None, (_evaluate(text, config) for text in texts)), 0)
        for name, texts in expressions.items()
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
