"""A traced table in the names of a checkpoint, and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prune_gui.architecture.tables import ArchitectureTable
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError
from prune_gui.language import listed, tr
from prune_gui.plain_yaml import dump_yaml


def as_yaml(table: ArchitectureTable) -> str:
    """Return the text of a table, which `load_table` reads."""
    return dump_yaml(table.model_dump(mode="json", exclude_defaults=True), compact=True)


def named_as_in(
    checkpoint: Checkpoint,
    table: ArchitectureTable,
    shapes: Mapping[str, Sequence[int]],
    tied: Mapping[str, Sequence[str]],
) -> ArchitectureTable:
    """Return a table with the names of a checkpoint in place of those of the network.

    A name of the checkpoint may have another prefix. Groups with a tensor that the checkpoint lacks
    are left out, and listed.

    Args:
        shapes: of the tensors of the network by name, tied ones under each name.
        tied: by the name in the table, all names of a tensor that has several. The checkpoint may
            have it under any of them, or a copy under each.
    """
    stored = {
        name: info for info in checkpoint.tensors.values() for name in (info.name, *info.aliases)
    }
    found: dict[str, str] = {}
    for name, shape in shapes.items():
        ends = [name] if name in stored else [
            one for one in stored if one.endswith(f".{name}") or name.endswith(f".{one}")
        ]  # fmt: skip
        fitting = [one for one in ends if stored[one].shape == tuple(shape)]
        if len(fitting) == 1:
            found[name] = stored[fitting[0]].name
    names = {
        name: tuple(dict.fromkeys(found[one] for one in tied.get(name, (name,)) if one in found))
        for name in shapes
    }
    missing: dict[str, None] = {}
    spaces = {}
    for space, rule in table.spaces.items():
        groups = []
        for group in rule.groups:
            lacking = [one.name for one in group.members if not names[one.name]]
            missing.update(dict.fromkeys(lacking))
            if not lacking:
                renamed = (
                    one.model_copy(update={"name": name})
                    for one in group.members
                    for name in names[one.name]
                )
                groups.append(group.model_copy(update={"members": tuple(renamed)}))
        if groups:
            spaces[space] = rule.model_copy(update={"groups": tuple(groups)})
    if not spaces:
        raise RecipeError(
            "{file} lacks the tensors of the network, such as {name} of shape {shape}. Name the "
            "checkpoint of this network.",
            file=checkpoint.path.name,
            name=next(iter(missing)),
            shape=list(shapes[next(iter(missing))]),
        )
    unknown = table.unknown
    if missing:
        left = tr(
            "Tensors that {file} lacks, or has in another shape: {names}.",
            file=checkpoint.path.name,
            names=listed(list(missing)),
        )
        unknown = (*unknown, left)
    return table.model_copy(update={"spaces": spaces, "unknown": unknown})
