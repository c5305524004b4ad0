"""A short description of the model from a Hugging Face config.json; shown, never relied on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from prune_gui.language import tr
from prune_gui.regular_files import read_regular

CONFIG_NAME: Final = "config.json"
MAX_CONFIG_BYTES: Final = 1_000_000
PLAIN_WORD: Final = re.compile(r"[\w.+-]{1,60}", re.ASCII)
MAX_WORDS: Final = 5
CONFIG_KEYS: Final = ("architectures", "_class_name", "model_type", "torch_dtype", "dtype")


def describe_hf_config(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return a few words from the config, and a remark if the file is invalid.

    Only plain ASCII words are used, so that no control characters or markup are shown.
    """
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        return "", ()
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        remark = tr("{file} beside it cannot be understood, and is left out.", file=CONFIG_NAME)
        return "", (remark,)
    words = [word for key in CONFIG_KEYS for word in _words(config.get(key))]
    return ", ".join(list(dict.fromkeys(words))[:MAX_WORDS]), ()


def _words(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values[:2] if isinstance(word, str) and PLAIN_WORD.fullmatch(word)]
