"""What a config.json beside a checkpoint says of the model; shown, and otherwise not believed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from prune_gui.language import tr
from prune_gui.regular_files import read_regular

CONFIG: Final = "config.json"
MAX_CONFIG_BYTES: Final = 1_000_000
WORD: Final = re.compile(r"[\w.+-]{1,60}", re.ASCII)
MAX_WORDS: Final = 5
FACTS: Final = ("architectures", "_class_name", "model_type", "torch_dtype", "dtype")


def describe_hf_config(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the facts of a Hugging Face config in a few words, and a remark if it has a fault.

    Only plain words count, so that nothing in the file can look like anything else.
    """
    try:
        config = json.loads(read_regular(folder / CONFIG, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        return "", ()
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        remark = tr("{file} beside it cannot be understood, and is left out.", file=CONFIG)
        return "", (remark,)
    words = [word for fact in FACTS for word in _words(config.get(fact))]
    return ", ".join(list(dict.fromkeys(words))[:MAX_WORDS]), ()


def _words(value: object) -> list[str]:
    several = value if isinstance(value, list) else [value]
    return [word for word in several[:2] if isinstance(word, str) and WORD.fullmatch(word)]
