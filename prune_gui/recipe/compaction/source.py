"""What the architecture of a checkpoint says about its units: spaces, groups and counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prune_gui.architecture.groups import counts, coupled_groups, spaces
from prune_gui.architecture.tables import SpaceRule
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.surroundings import CONFIG_NAME, MAX_CONFIG_BYTES
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.coupling import CoupledGroup
from prune_gui.regular_files import read_regular

Json = dict[str, object]
EXPERTS_PER_TOKEN: Final = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")
"""Keys of config.json."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The coupled groups of a checkpoint, and what config.json says.

    Attributes:
        spaces: the rules of each space, by name.
        groups: the groups of all spaces.
        counts: numbers by the names that rules use, before pruning.
        integers: the integers of config.json by key.
        config: the content of config.json; None if there is none.
    """

    spaces: Mapping[str, SpaceRule]
    groups: tuple[CoupledGroup, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    integers: Mapping[str, int] = field(default_factory=dict)
    config: Json | None = None


def architecture_of(checkpoint: Checkpoint, table: Path | None = None) -> Architecture:
    """Return the groups of a checkpoint.

    Args:
        checkpoint: the checkpoint.
        table: the file of a table of architectures; None for those of this program.

    Raises:
        RecipeError: no table describes the network, or the table does not fit it.
    """
    rules = spaces(checkpoint, table)
    if not rules:
        raise RecipeError(
            tr(
                "{file}: it is not known which slices of its tensors belong together. Specify a "
                "table of its architecture.",
                file=checkpoint.path.name,
            )
        )
    groups = tuple(group for space in rules for group in coupled_groups(checkpoint, space, table))
    return Architecture(
        rules,
        groups,
        counts(checkpoint, table),
        checkpoint.hf_config,
        read_config(checkpoint.path.parent),
    )


def read_config(folder: Path) -> Json | None:
    """Return the content of config.json in a folder; None if there is none, or an invalid one."""
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None
