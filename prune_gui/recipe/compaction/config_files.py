"""The files beside the compact form that change with it: config.json and the tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from prune_gui.checkpoint.remote.uploads import exists
from prune_gui.checkpoint.surroundings import CONFIG_NAME
from prune_gui.errors import valid_text
from prune_gui.location import Location
from prune_gui.recipe.compaction.plan import CompactPlan
from prune_gui.recipe.compaction.source import Json


def adapted_files(copies: Mapping[str, bytes], plan: CompactPlan) -> dict[str, bytes]:
    """Return the files to write into the folder of the compact form, by name.

    They are the copies, with those of the tokenizer changed that has lost tokens, and the
    config.json that fits.
    """
    files = {name: content for name, content in copies.items() if name != CONFIG_NAME}
    if tokens := plan.tokens:
        files = {name: octets for name, octets in files.items() if not tokens.is_left_out(name)}
        files |= {name: octets for name, octets in tokens.files.items() if octets is not None}
    return files if plan.config is None else {**files, CONFIG_NAME: _config_bytes(plan.config)}


def config_beside(plan: CompactPlan, file: Path) -> dict[str, bytes]:
    """Return the config.json to write beside a single file, by name; {} if one is there already."""
    if plan.config is None or exists(Location.at(file.parent / CONFIG_NAME)):
        return {}
    return {CONFIG_NAME: _config_bytes(plan.config)}


def _config_bytes(config: Json) -> bytes:
    return valid_text(f"{json.dumps(config, indent=2, ensure_ascii=False)}\n").encode()
