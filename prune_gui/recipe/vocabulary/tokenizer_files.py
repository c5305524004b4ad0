"""The files beside a checkpoint without some tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import RecipeError, valid_text
from prune_gui.recipe.vocabulary.encoding import verify
from prune_gui.recipe.vocabulary.models import Json, new_id, renumber
from prune_gui.recipe.vocabulary.vocabulary import (
    ADDED_DECODER,
    ADDED_TOKENS,
    GENERATION_CONFIG,
    MAX_FILE_BYTES,
    TOKENIZER,
    TOKENIZER_CONFIG,
    VOCAB,
    Vocabulary,
    is_id,
    read_json,
    read_lines,
)

VOCAB_JSON: Final = "vocab.json"
MERGES: Final = "merges.txt"
OTHER_VOCABULARIES: Final = (".bpe", ".codes", ".model", ".spm", ".tiktoken", ".vocab")
"""Suffixes of files that repeat the vocabulary in other formats; they are not written."""


@dataclass(frozen=True, slots=True)
class RemovedTokens:
    """What changes with the removal of tokens; a file that repeats the old vocabulary is None."""

    removed: frozenset[int]
    new_ids: Sequence[int]
    files: Mapping[str, bytes | None] = field(repr=False)

    def is_left_out(self, name: str) -> bool:
        """Return whether a file repeats the old vocabulary, so that it must not be copied."""
        is_other = name.lower().endswith(OTHER_VOCABULARIES)
        return is_other or (name in self.files and self.files[name] is None)


def without_tokens(
    vocabulary: Vocabulary, units: NDArray[np.bool_], texts: Iterable[str]
) -> RemovedTokens:
    """Return what changes with the removal of tokens, verified."""
    removed = frozenset(np.flatnonzero(units).tolist())
    new_ids: list[int] = ((~units).cumsum() - 1).tolist()
    content = vocabulary.without(removed, new_ids)
    verify(vocabulary, content, removed, new_ids, texts)
    files: dict[str, bytes | None] = {}
    if vocabulary.file_name == TOKENIZER:
        files[TOKENIZER] = valid_text(json.dumps(content, ensure_ascii=False)).encode()
    change = _Change(vocabulary.ids, removed, new_ids)
    for name, rewritten in REWRITERS.items():
        path = vocabulary.folder / name
        if path.is_file():
            files[name] = rewritten(path, change)
    return RemovedTokens(removed, new_ids, files)


@dataclass(frozen=True, slots=True)
class _Change:
    """What to change in a file: old ids of all tokens, removed ones, and new ids by old ones."""

    ids: Mapping[str, int]
    removed: frozenset[int]
    new_ids: Sequence[int]


def _vocab_lines(path: Path, change: _Change) -> bytes | None:
    """Return vocab.txt without the lines of the removed tokens; None if it has other tokens."""
    lines = _lines(path)
    if any(change.ids.get(token) != number for number, token in enumerate(lines)):
        return None
    return _text(line for number, line in enumerate(lines) if number not in change.removed)


def _vocab_json(path: Path, change: _Change) -> bytes | None:
    vocab = read_json(path)
    if any(change.ids.get(token) != number for token, number in vocab.items()):
        return None
    kept = {token: n for token, n in vocab.items() if n not in change.removed}
    return json.dumps({token: new_id(n, change.new_ids) for token, n in kept.items()}).encode()


def _merges(path: Path, change: _Change) -> bytes | None:
    gone = {token for token, number in change.ids.items() if number in change.removed}
    kept = []
    for line in _lines(path):
        first, _, second = line.partition(" ")
        if line.startswith("#version") or gone.isdisjoint((first, second, first + second)):
            kept.append(line)
    return _text(kept)


def _added_tokens(path: Path, change: _Change) -> bytes:
    """The tokens all stay."""
    return _json({token: new_id(n, change.new_ids) for token, n in read_json(path).items()})


def _config(path: Path, change: _Change) -> bytes:
    config = read_json(path)
    decoder = config.get(ADDED_DECODER)
    if isinstance(decoder, dict):
        config[ADDED_DECODER] = {
            str(new_id(int(key), change.new_ids)) if is_id(key) else key: token
            for key, token in decoder.items()
        }
    renumber(config, change.new_ids, change.removed)
    return _json(config)


REWRITERS: Final[Mapping[str, Callable[[Path, _Change], bytes | None]]] = {
    VOCAB: _vocab_lines,
    VOCAB_JSON: _vocab_json,
    MERGES: _merges,
    ADDED_TOKENS: _added_tokens,
    TOKENIZER_CONFIG: _config,
    GENERATION_CONFIG: _config,
}
"""By name of a file beside a checkpoint, the function that returns its new content."""


def _lines(path: Path) -> list[str]:
    try:
        return read_lines(path, MAX_FILE_BYTES)
    except RecipeError:
        return []


def _text(lines: Iterable[str]) -> bytes | None:
    return "".join(f"{line}\n" for line in lines).encode() or None


def _json(content: Json) -> bytes:
    return f"{json.dumps(content, indent=2)}\n".encode()
