"""Which files beside a checkpoint are small files that programs need to load it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prune_gui.checkpoint.folder import is_weight_file

SUFFIXES: Final = frozenset({".json", ".txt", ".model", ".jinja", ".tiktoken", ".bpe", ".py"})
"""Of config files, tokenizers, chat templates and code of models."""
MAX_FILE_BYTES: Final = 64 << 20
MAX_FILES: Final = 100
MAX_INNER_FILE_BYTES: Final = 1 << 20
MAX_INNER_FILES: Final = 10
"""The limits for a folder beside the checkpoint; one with more is left out."""


def is_small_file_name(name: str) -> bool:
    """Return whether a file with this name is copied if it is small."""
    path = Path(name)
    is_index = name.lower().endswith(".index.json")
    return path.suffix.lower() in SUFFIXES and not is_index and not is_weight_file(path)


def is_inner_folder_name(name: str) -> bool:
    """Return whether a folder with this name is copied if it has nothing but small files."""
    return not name.startswith((".", "__"))
