"""What to open in a folder, a checkpoint or a model of a pipeline, and what its files say of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from prune_gui.checkpoint import formats
from prune_gui.checkpoint.base import Surroundings
from prune_gui.checkpoint.sharded.index import index_pattern, index_with, is_index, part_names
from prune_gui.errors import CheckpointError
from prune_gui.language import listed, tr, trn
from prune_gui.location import Location
from prune_gui.regular_files import read_regular

VARIANT_MARK: Final = r"\.((fp|bf|int)\d+|(non_)?ema)"
"""The part of a file name that marks a variant, such as "fp16". A file without it is preferred."""
INDEX_SUFFIX: Final = re.compile(r"\.index\.json$", re.IGNORECASE)
PIPELINE_INDEX: Final = "model_index.json"
"""The file that marks the folder of a pipeline. It does not list the weight files."""
DENOISERS: Final = ("unet", "transformer")
"""The folders of the main model of a pipeline, as diffusers names them."""
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


def find_checkpoint(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the file to open, an index or a checkpoint, and a remark if it has variants.

    Inner folders are not searched. It is refused if the user has to choose one of several.
    """
    names = [path.name for path in visible_files(folder)]
    for pattern in _preferred_names():
        matches = [name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)]
        firsts = {(part_names(name) or (name,))[0]: name for name in reversed(matches)}
        candidates = [
            name
            for name in reversed(firsts.values())  # without further parts of a split file
            if _without_variant(name) == name or _without_variant(name) not in matches
        ]
        if len(candidates) == 1:
            return folder / candidates[0], _variant_remarks(candidates[0], names)
        if matches:
            raise CheckpointError(
                "{folder} holds several checkpoints. Open one of them: {names}.",
                folder=Location.at(folder),
                names=listed(candidates),
            )
    raise CheckpointError(
        "{folder} is a folder without a checkpoint ({suffixes}). Open a folder with a checkpoint.",
        folder=Location.at(folder),
        suffixes=", ".join(formats.known_suffixes()),
    )


def _preferred_names() -> Iterator[str]:
    """Yield patterns of file names, the preferred first. Several matches of one are ambiguous."""
    for file_format in formats.FORMATS:
        yield index_pattern(file_format)
        yield file_format.preferred_name
        yield f".+({'|'.join(map(re.escape, file_format.suffixes))})"


def _without_variant(name: str) -> str:
    suffixes = "|".join(re.escape(each.shard_suffix) for each in formats.FORMATS)
    return re.sub(f"{VARIANT_MARK}(?=({suffixes}|\\.json)$)", "", name, flags=re.IGNORECASE)


def _variant_remarks(opened: str, names: Sequence[str]) -> tuple[str, ...]:
    models = {name: INDEX_SUFFIX.sub("", _without_variant(name)) for name in names}
    others = [name for name in names if models[name] == models[opened] and name != opened]
    if not others:
        return ()
    return (
        tr(
            "There are several variants; {name} was opened. The others are {others}.",
            name=opened,
            others=listed(others),
        ),
    )


def visible_files(folder: Path) -> list[Path]:
    """Return the files of a folder without hidden ones, sorted by name."""
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()
    )


def is_weight_file(path: Path) -> bool:
    """Return whether the name of a file is that of a checkpoint or of an index of shards."""
    return formats.format_by_suffix(path) is not None or is_index(path)


class Component(NamedTuple):
    """One model of a pipeline; its name is that of its folder, `path` this or a file in it."""

    folder: Path
    name: str
    names: tuple[str, ...]
    path: Path

    @property
    def remarks(self) -> tuple[str, ...]:
        """A remark that names the other models, if there are any."""
        others = [name for name in self.names if name != self.name]
        if not others:
            return ()
        return (
            tr(
                "This is {name!r} of a pipeline of several models. The others are {others}. "
                "Choose one by its name: --state, or File > State dict.",
                name=self.name,
                others=listed(others),
            ),
        )


def find_component(path: Path, wanted: str | None) -> Component | None:
    """Return the model of a pipeline that a path and a name select; None if it is none."""
    if names := _model_names(path):
        if wanted is not None and wanted not in names:
            raise CheckpointError(
                "{path} is a pipeline of several models, and has no {name!r}. "
                "Choose one of {names}.",
                path=path,
                name=wanted,
                names=listed(names),
            )
        name = wanted or _main_model(path, names)
        return Component(path, name, names, path / name)
    inner = (path if path.is_dir() else path.parent).absolute()
    try:
        names = _model_names(inner.parent)
    except OSError:  # an unreadable parent folder does not prevent opening the file
        return None
    if inner.name not in names or wanted not in (None, *names):
        return None
    other = inner.parent / wanted if wanted not in (None, inner.name) else path
    return Component(inner.parent, wanted or inner.name, names, other)


def _model_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the inner folders with weights; () if the folder is not a pipeline."""
    if not (folder / PIPELINE_INDEX).is_file():
        return ()
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return tuple(
        sorted(path.name for path in inner if any(map(is_weight_file, visible_files(path))))
    )


def _main_model(folder: Path, names: tuple[str, ...]) -> str:
    def nbytes(name: str) -> int:
        weights = filter(is_weight_file, visible_files(folder / name))
        return sum(path.stat().st_size for path in weights)

    return next((name for name in DENOISERS if name in names), max(names, key=nbytes))


def look_around(
    path: Path,
    remarks: Iterable[str],
    component: Component | None,
    pipeline: Path | None = None,
) -> Surroundings:
    """Return what is around a file or an index of shards, without opening it."""
    found, config_remarks = read_hf_config(path.parent)
    config = found or {}
    configs = config, _text_config(config)
    words = [word for key in CONFIG_KEYS for word in _words(config.get(key))]
    types = [word for each in configs for word in _words(each.get(MODEL_TYPE))[:1]]
    return Surroundings(
        ", ".join(list(dict.fromkeys(words))[:MAX_WORDS]),
        (*remarks, *_index_remarks(path), *config_remarks),
        component.names if component else (),
        component.name if component else "",
        pipeline,
        positive_integers(config),
        tuple(dict.fromkeys(types)),
    )


def _index_remarks(path: Path) -> tuple[str, ...]:
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


def read_hf_config(folder: Path) -> tuple[dict[str, object] | None, tuple[str, ...]]:
    """Return the content of config.json in a folder, None without a valid one, and a remark."""
    try:
        config = json.loads(read_regular(folder / CONFIG_NAME, MAX_CONFIG_BYTES))
    except FileNotFoundError:
        return None, ()
    except (OSError, ValueError, RecursionError):
        config = None
    if isinstance(config, dict):
        return config, ()
    return None, (tr("{file} in the same folder is invalid and is ignored.", file=CONFIG_NAME),)


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


def _text_config(config: dict[str, object]) -> dict[str, object]:
    inner = config.get(TEXT_CONFIG)
    return inner if isinstance(inner, dict) else {}


def _words(value: object) -> list[str]:
    """Return up to two plain ASCII words of a config: no control characters or markup are shown."""
    values = value if isinstance(value, list) else [value]
    return [word for word in values[:2] if isinstance(word, str) and PLAIN_WORD.fullmatch(word)]
