"""What the architecture of a checkpoint says about its units: spaces, groups and counts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prune_gui.architecture.conv_windows import Windows
from prune_gui.architecture.groups import (
    coupled_groups,
    evaluate_counts,
    is_guessed,
    readings,
    spaces,
    table_for,
    windows,
)
from prune_gui.architecture.tables import SpaceRule
from prune_gui.architecture.unit_values import Reading, readings_of_rule
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.surroundings import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    TEXT_CONFIG,
    positive_integers,
)
from prune_gui.errors import RecipeError
from prune_gui.language import tr
from prune_gui.pruning.layouts import CoupledGroup
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
        count_expressions: by the names that rules use, the expressions of numbers; see
            `ArchitectureTable.counts`.
        integers: the integers of config.json by key.
        config: the content of config.json; None if there is none.
        readings: how layers read units, by the name of their weight, where that is known.
        windows: the windows of all convolutions, by the name of their weight; empty if not known.
        guessed: whether shapes and the order of the file alone make the groups likely.
    """

    spaces: Mapping[str, SpaceRule]
    groups: tuple[CoupledGroup, ...]
    count_expressions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    integers: Mapping[str, int] = field(default_factory=dict)
    config: Json | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    windows: Mapping[str, Windows] = field(default_factory=dict)
    guessed: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """Numbers by the names that rules use, before pruning."""
        return evaluate_counts(self.count_expressions, self.integers)

    def counts_with(self, config: Json | None) -> dict[str, int]:
        """Return the numbers by the names that rules use, with another config.json."""
        return evaluate_counts(self.count_expressions, positive_integers(config or {}))


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
    known = table_for(checkpoint, table)
    groups = tuple(group for space in rules for group in coupled_groups(checkpoint, space, table))
    config = read_config(checkpoint.path.parent)
    return Architecture(
        rules,
        groups,
        known.counts if known else {},
        checkpoint.hf_config,
        config,
        {
            **readings(checkpoint, table),
            **readings_of_rules(rules, groups, config, checkpoint.tensors),
        },
        windows(checkpoint, table),
        is_guessed(checkpoint, table),
    )


def readings_of_rules(
    rules: Mapping[str, SpaceRule],
    groups: Iterable[CoupledGroup],
    config: Json | None,
    names: Collection[str],
) -> dict[str, Reading]:
    """Return how layers read the units of tables, by the name of their weight."""
    result: dict[str, Reading] = {}
    for group in groups:
        rule = rules[group.space]
        if rule.activation:
            result |= readings_of_rule(group, rule, _activation(rule, config), names)
    return result


def _activation(rule: SpaceRule, config: Json | None) -> str | None:
    """Return the name of the activation function of a space; None if it is not known.

    The fields of the config of several models may be about another one.
    """
    if config is None or TEXT_CONFIG in config:
        return None
    values = (config[key] for key in rule.activation if key in config)
    function = next(values, None)
    return function if isinstance(function, str) else None


def read_config(folder: Path) -> Json | None:
    """Return the content of config.json in a folder; None if there is none, or an invalid one."""
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None
