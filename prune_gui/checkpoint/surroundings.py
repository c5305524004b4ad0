"""What the files beside a checkpoint say about it; shown, never relied on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.folder import Component
from prune_gui.checkpoint.sharded.index import index_with, is_index
from prune_gui.language import tr, trn
from prune_gui.regular_files import read_regular

CONFIG_NAME: Final = "config.json"
MAX_CONFIG_BYTES: Final = 1_000_000
PLAIN_WORD: Final = re.compile(r"[\w.+-]{1,60}", re.ASCII)
MAX_WORDS: Final = 5
TEXT_CONFIG: Final = "text_config"
INNER_CONFIG: Final = "_config"
"""The end of the keys of the models in a config."""
MODEL_TYPE: Final = "model_type"
MAX_INTEGER: Final = 1 << 40
CONFIG_KEYS: Final = ("architectures", "_class_name", "model_type", "torch_dtype", "dtype")


def look_around(path: Path, remarks: Iterable[str], component: Component | None) -> Surroundings:
    """Return what is around a file or an index of shards, without opening it."""
    config, config_remarks = _read_hf_config(path.parent)
    return Surroundings(
        _describe(config),
        (*remarks, *_index_remarks(path), *config_remarks),
        component.names if component else (),
        component.name if component else "",
        positive_integers(config),
        _model_types(config),
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


def _read_hf_config(folder: Path) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return a Hugging Face config, empty if there is none, and a remark if it is invalid."""
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        return {}, ()
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        remark = tr("{file} in the same folder is invalid and is ignored.", file=CONFIG_NAME)
        return {}, (remark,)
    return config, ()


def _describe(config: dict[str, object]) -> str:
    """Return a few plain ASCII words from a config: no control characters or markup are shown."""
    words = [word for key in CONFIG_KEYS for word in _words(config.get(key))]
    return ", ".join(list(dict.fromkeys(words))[:MAX_WORDS])


def positive_integers(config: dict[str, object]) -> dict[str, int]:
    """Return the positive integers of a config; those of the text model of several come last.

    A list of integers in an inner config has one for each of its indices; see `BLOCK_FIELD`.
    """
    models = {name: model for name, model in config.items() if name.endswith(INNER_CONFIG)}
    inner = {
        f"{name}.{key}": value
        for name, model in models.items()
        if isinstance(model, dict)
        for key, value in model.items()
    }
    for field in [key for key, value in inner.items() if isinstance(value, list)]:
        inner |= {f"{field}.{i}": value for i, value in enumerate(inner[field][:MAX_WORDS])}
    return {
        key: value
        for key, value in (_text_config(config) | config | inner).items()
        if type(value) is int and 0 < value <= MAX_INTEGER
    }


def _model_types(config: dict[str, object]) -> tuple[str, ...]:
    """Return the types of the whole model and of the text model."""
    configs = (config, _text_config(config))
    words = (word for each in configs for word in _words(each.get(MODEL_TYPE))[:1])
    return tuple(dict.fromkeys(words))


def _text_config(config: dict[str, object]) -> dict[str, object]:
    """Return the config of the text model of several models; empty if there is none."""
    inner = config.get(TEXT_CONFIG)
    return inner if isinstance(inner, dict) else {}


def _words(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [word for word in values[:2] if isinstance(word, str) and PLAIN_WORD.fullmatch(word)]
