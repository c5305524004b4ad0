"""The tokens that a step prunes: those of a list, or those that a corpus does not contain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from prune_gui.architecture.groups import coupled_groups
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError
from prune_gui.language import tr, trn
from prune_gui.pruning.methods.listed_units import TOKENS, Tokens
from prune_gui.recipe.vocabulary.encoding import encoded, load_tokenizer
from prune_gui.recipe.vocabulary.vocabulary import (
    MAX_FILE_BYTES,
    Stamp,
    Vocabulary,
    read_lines,
    read_vocabulary,
    stamps,
)

MAX_TEXT_CHARS: Final = 1 << 16
"""Adjacent lines of a corpus are joined up to this length."""


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """The tokens that a step prunes.

    Attributes:
        ids: their ids, ascending; at least one.
        staying: number of listed tokens that stay.
    """

    ids: tuple[int, ...]
    staying: int

    @property
    def remark(self) -> str:
        """A remark for the user on the tokens that stay; "" if there are none."""
        if not self.staying:
            return ""
        return trn(
            "{count:,} listed token stays: a special token, a byte, or a part of kept tokens",
            "{count:,} listed tokens stay: special tokens, bytes, or parts of kept tokens",
            self.staying,
        )


def selected_tokens(
    method: Tokens, checkpoint: Checkpoint, table: Path | None = None
) -> TokenSelection:
    """Return the tokens that a method prunes; cached while the files are unchanged."""
    (group,) = coupled_groups(checkpoint, TOKENS, table)
    vocabulary = read_vocabulary(checkpoint.model_files_folder, group.size)
    path = Path(method.listed or method.corpus or "")
    return _selected(vocabulary, path, method.listed is not None, stamps([path]))


@lru_cache(maxsize=4)
def _selected(
    vocabulary: Vocabulary, path: Path, is_list: bool, _: tuple[Stamp | None, ...]
) -> TokenSelection:
    wanted = _listed(vocabulary, path) if is_list else _absent(vocabulary, path)
    removable = vocabulary.removable(wanted)
    if not removable:
        raise RecipeError(
            tr(
                "{path}: no token can be removed; special tokens, bytes and parts of kept tokens "
                "always stay. List other tokens.",
                path=path,
            )
            if is_list
            else tr(
                "{path}: no token can be removed, because all of them occur. Use another text.",
                path=path,
            )
        )
    staying = len(wanted) - len(removable) if is_list else 0
    return TokenSelection(tuple(sorted(removable)), staying)


def _listed(vocabulary: Vocabulary, path: Path) -> set[int]:
    """Return the ids of the tokens in a file with one on each line; empty lines are skipped."""
    wanted = set()
    for line, token in enumerate(read_lines(path, MAX_FILE_BYTES), start=1):
        if not token:
            continue
        if token not in vocabulary.ids:
            raise RecipeError(
                tr(
                    "{path}, line {line}: {token!r} is not in {vocabulary}. Write tokens as they "
                    "are there.",
                    path=path,
                    line=line,
                    token=token[:60],
                    vocabulary=vocabulary.file_name,
                )
            )
        wanted.add(vocabulary.ids[token])
    return wanted


def _absent(vocabulary: Vocabulary, path: Path) -> set[int]:
    """Return the ids of the tokens that a text does not contain."""
    tokenizer = load_tokenizer(vocabulary.content, vocabulary.file_name)
    absent = set(vocabulary.ids.values())
    texts = corpus_texts(path)
    for ids in encoded(tokenizer, texts, vocabulary.file_name, add_special_tokens=False):
        absent.difference_update(ids)
    return absent


def corpus_texts(path: Path) -> Iterator[str]:
    """Yield each line of a corpus by itself, and adjacent lines joined."""
    lines = read_lines(path, MAX_FILE_BYTES)
    joined: list[str] = []
    length = 0
    for line in lines:
        yield line
        joined.append(line)
        length += len(line) + 1
        if length >= MAX_TEXT_CHARS:
            yield "\n".join([*joined, ""])
            joined, length = [], 0
    yield "\n".join(joined)
