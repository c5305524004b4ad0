"""Tokens that the compact form leaves out, and what their removal changes beside the tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.pruning.methods.listed_units import TOKENS, Tokens
from prune_gui.recipe.compaction.removal import Units
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.vocabulary.files import RemovedTokens, without_tokens
from prune_gui.recipe.vocabulary.selection import corpus_texts
from prune_gui.recipe.vocabulary.vocabulary import read_vocabulary


def prunes_tokens(recipe: Recipe) -> bool:
    """Return whether a step prunes tokens. Else the vocabulary stays, even where it is zero."""
    return bool(list(_methods(recipe)))


def remove_tokens(
    resolution: Resolution, groups: Sequence[CoupledGroup], removed: Sequence[Units]
) -> RemovedTokens | None:
    """Return what changes with the removal of tokens; None if none is removed."""
    for group, units in zip(groups, removed, strict=True):
        if group.space == TOKENS and units.any():
            vocabulary = read_vocabulary(resolution.checkpoint.model_files_folder, group.size)
            removable = vocabulary.removable(set(np.flatnonzero(units).tolist()))
            units[:] = False
            units[list(removable)] = True
            corpora = [Path(one.corpus) for one in _methods(resolution.recipe) if one.corpus]
            texts = chain.from_iterable(map(corpus_texts, corpora))
            return without_tokens(vocabulary, units, texts) if removable else None
    return None


def _methods(recipe: Recipe) -> Iterator[Tokens]:
    for step in recipe.steps:
        if step.enabled and isinstance(step.method, Tokens):
            yield step.method
