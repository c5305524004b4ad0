"""What the files beside a checkpoint say about it; shown, never relied on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.pipeline import Component
from prune_gui.checkpoint.sharded.index import index_with, is_index
from prune_gui.language import tr, trn
from prune_gui.regular_files import read_regular

CONFIG_NAME: Final = "config.json"
MAX_CONFIG_BYTES: Final = 1_000_000
PLAIN_WORD: Final = re.compile(r"[\w.+-]{1,60}", re.ASCII)
MAX_WORDS: Final = 5
CONFIG_KEYS: Final = ("architectures", "_class_name", "model_type", "torch_dtype", "dtype")


def look_around(path: Path, remarks: Iterable[str], component: Component | None) -> Surroundings:
    """Return what is around a checkpoint, without opening it.

    Args:
        path: the file, or the index of shards.
        remarks: what choosing the file has to say.
        component: the model of a pipeline that the file belongs to.
    """
    description, config_remarks = _describe_hf_config(path.parent)
    return Surroundings(
        description,
        (*remarks, *_index_remarks(path), *config_remarks),
        component.names if component else (),
        component.name if component else "",
    )


def _index_remarks(path: Path) -> tuple[str, ...]:
    """Return a remark if the file is a shard that an index beside it lists."""
    index = None if is_index(path) else index_with(path)
    if index is None:
        return ()
    return (
        trn(
            "It is the only shard; open {index} for the whole checkpoint.",
            "It is one of {count:,} shards; open {index} for the whole checkpoint.",
            len(index.shards),
            index=index.path.name,
        ),
    )


def _describe_hf_config(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return a few words from a Hugging Face config, and a remark if the file is invalid.

    Only plain ASCII words are used, so that no control characters or markup are shown.
    """
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        return "", ()
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        remark = tr("{file} in the same folder is invalid and is ignored.", file=CONFIG_NAME)
        return "", (remark,)
    words = [word for key in CONFIG_KEYS for word in _words(config.get(key))]
    return ", ".join(list(dict.fromkeys(words))[:MAX_WORDS]), ()


def _words(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values[:2] if isinstance(word, str) and PLAIN_WORD.fullmatch(word)]
