"""The files beside a checkpoint that programs need to load it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.folder import is_weight_file, visible_files
from prune_gui.checkpoint.sharded.index import allowed_folders
from prune_gui.checkpoint.surroundings import CONFIG_NAME
from prune_gui.recipe.compaction.plan import CompactPlan
from prune_gui.regular_files import read_regular

SUFFIXES: Final = frozenset({".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe", ".py"})
"""Of config files, tokenizers, chat templates and code of models."""
MAX_FILE_BYTES: Final = 64 << 20
MAX_FILES: Final = 100
OWN_SCRIPT: Final = b'"""Written by Prune GUI.'


def small_files(checkpoint: Checkpoint, plan: CompactPlan) -> dict[str, bytes]:
    """Return the contents of the files to write beside the compact form, by name.

    They are the adapted config.json, and copies of the small files beside it. Copies are unchanged,
    except for those of a tokenizer without some tokens. Without a config.json there are none.
    """
    if plan.config is None:
        return {}
    files = dict(_copies(checkpoint.path.parent))
    if tokens := plan.tokens:
        files = {
            name: tokens.files.get(name) or content
            for name, content in files.items()
            if not tokens.is_left_out(name)
        }
    files[CONFIG_NAME] = f"{json.dumps(plan.config, indent=2, ensure_ascii=False)}\n".encode()
    return files


def _copies(folder: Path) -> Iterator[tuple[str, bytes]]:
    allowed = allowed_folders(folder)
    paths = [path for path in visible_files(folder) if _is_small_file(path, allowed)]
    for path in paths[:MAX_FILES]:
        with suppress(OSError):  # a file that cannot be read is not needed to read the weights
            content = read_regular(path, MAX_FILE_BYTES)
            if not content.startswith(OWN_SCRIPT):
                yield path.name, content


def _is_small_file(path: Path, allowed: set[Path]) -> bool:
    if path.suffix.lower() not in SUFFIXES or path.name.lower().endswith(".index.json"):
        return False
    real = Path(os.path.realpath(path))
    return real.parent in allowed and not is_weight_file(path) and path.name != CONFIG_NAME
