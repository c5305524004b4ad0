"""What is known of a network: its units and config.json, its size, the work of a pass."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prune_gui.architecture.groups import analysis, coupled_groups, evaluate_counts, spaces
from prune_gui.architecture.tables import SpaceRule
from prune_gui.architecture.torchvision_layers import Windows
from prune_gui.architecture.unit_values import Reading, readings_of_rule
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import (
    CONFIG_NAME,
    MAX_CONFIG_BYTES,
    TEXT_CONFIG,
)
from prune_gui.checkpoint.tensor_info import TensorInfo, size_in_bytes
from prune_gui.checkpoint.tree import is_usually_pruned
from prune_gui.errors import RecipeError
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.regular_files import read_regular

EXPERTS = "experts"  # the name of the space of experts in tables of architectures
Json = dict[str, object]
EXPERTS_PER_TOKEN: Final = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token")
"""Keys of config.json."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a network; its multiply-adds are per token, or per image."""

    tensors: int
    parameters: int
    nbytes: int
    multiply_adds: int | None


def figures(
    every: Sequence[tuple[TensorInfo, tuple[int, ...]]],
    active: Mapping[str, float],
    sizes: Mapping[str, int],
) -> Figures:
    """Return the figures of tensors with shapes before or after the removal of units."""
    working = [
        (info, shape)
        for info, shape in every
        if info.name in active or (len(shape) > 1 and is_usually_pruned(info))
    ]
    is_known = all(
        len(shape) == 2 or info.name in active or info.name in sizes for info, shape in working
    )
    work = sum(
        math.prod(shape) * active.get(info.name, 1) * sizes.get(info.name, 1) ** 2
        for info, shape in working
    )
    return Figures(
        tensors=len(every),
        parameters=sum(math.prod(shape) for _, shape in every),
        nbytes=sum(size_in_bytes(shape, info.dtype) for info, shape in every),
        multiply_adds=round(work) if is_known else None,
    )


def active_shares(
    groups: Iterable[tuple[CoupledGroup, int]],
    counts: Mapping[str, int],
    tensors: Mapping[str, TensorInfo],
) -> dict[str, float]:
    """Return the share of each tensor of experts that processes a token."""
    per_token = next((counts[key] for key in EXPERTS_PER_TOKEN if key in counts), None)
    if per_token is None:
        return {}
    return {
        member.name: min(1.0, per_token / max(1, number))
        for group, number in groups
        if group.space == EXPERTS
        for member in group.members
        if member.name in tensors
        and len(tensors[member.name].shape) > (1 if member.dim is None else 2)
    }


@dataclass(frozen=True, slots=True)
class Architecture:
    """The coupled groups of a checkpoint, and what config.json says."""

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


def architecture_of(checkpoint: Checkpoint, table: Path | None = None) -> Architecture:
    """Return the groups of a checkpoint, by a table in a file or by those of this program."""
    rules = spaces(checkpoint, table)
    if not rules:
        raise RecipeError(
            "{file}: it is not known which slices of its tensors belong together. Specify a "
            "table of its architecture.",
            file=checkpoint.path.name,
        )
    known = analysis(checkpoint, table)
    groups = tuple(group for space in rules for group in coupled_groups(checkpoint, space, table))
    config = read_config(checkpoint.path.parent)
    return Architecture(
        rules,
        groups,
        known.table.counts if known.table else {},
        checkpoint.hf_config,
        config,
        {
            **known.readings,
            **readings_of_rules(rules, groups, config, checkpoint.tensors),
        },
        known.windows,
        known.guessed,
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
            values = (config[key] for key in rule.activation if config and key in config)
            function = next(values, None)
            # The fields of the config of several models may be about another one.
            is_known = isinstance(function, str) and TEXT_CONFIG not in (config or {})
            known = str(function) if is_known else None
            result |= readings_of_rule(group, rule, known, names)
    return result


def read_config(folder: Path) -> Json | None:
    """Return the content of config.json in a folder; None if there is none, or an invalid one."""
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None
