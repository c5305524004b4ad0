"""Encoding texts with the library ``tokenizers``, which is optional; the tokens to prune."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prune_gui.architecture.groups import coupled_groups
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError, one_line
from prune_gui.file_stamps import FileStamps
from prune_gui.language import tr, trn
from prune_gui.monitor import check_cancelled
from prune_gui.pruning.methods.listed_units import TOKENS, Tokens
from prune_gui.recipe.vocabulary.models import Json
from prune_gui.recipe.vocabulary.vocabulary import (
    MAX_FILE_BYTES,
    Vocabulary,
    read_lines,
    read_vocabulary,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


BATCH_TEXTS: Final = 1 << 12
BATCH_CHARS: Final = 1 << 20  # limits of what is encoded between two checks for cancellation
WINDOW_TOKENS: Final = 16
"""Length of the texts for the verification that are made of adjacent tokens."""
MAX_TEXT_CHARS: Final = 1 << 16  # adjacent lines of a corpus are joined up to this length


def load_tokenizer(content: Json, name: str) -> Tokenizer:
    """Return a tokenizer without truncation and padding."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise RecipeError(
            "Removing tokens needs the package {package}. Install prune-gui[{extra}] to encode "
            "texts.",
            package="tokenizers",
            extra="tokens",
        ) from error
    with _errors_in(name):
        tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@contextmanager
def _errors_in(name: str) -> Iterator[None]:
    """Report an error of the library, which raises nothing more specific than `Exception`."""
    try:
        yield
    except BaseException as error:
        # A panic of the library is not an `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = one_line(str(error)).rstrip(".")
        raise RecipeError(
            "{file}: the tokenizers library cannot use it: {reason}. Put the tokenizer of this "
            "checkpoint beside it.",
            file=name,
            reason=reason,
        ) from error


def encoded(
    tokenizer: Tokenizer, texts: Iterable[str], name: str, *, add_special_tokens: bool = True
) -> Iterator[list[int]]:
    """Yield the ids of the tokens of each text."""
    for batch in _batches(texts):
        check_cancelled()
        with _errors_in(name):
            found: list[Any] = tokenizer.encode_batch_fast(
                batch, add_special_tokens=add_special_tokens
            )
        yield from (encoding.ids for encoding in found)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    chars = 0
    for text in texts:
        batch.append(text)
        chars += len(text)
        if len(batch) == BATCH_TEXTS or chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def verify(
    vocabulary: Vocabulary,
    content: Json,
    removed: frozenset[int],
    new_ids: Sequence[int],
    texts: Iterable[str],
) -> None:
    """Check that texts without removed tokens are encoded as before, with the new ids.

    The texts are those given, each token that stays, and runs of adjacent ones; for WordPiece
    without unknown words, which it may know without a longer token in it.
    """
    name = vocabulary.file_name
    old = load_tokenizer(vocabulary.content, name)
    new = load_tokenizer(content, name)
    kept = {token: number for token, number in vocabulary.ids.items() if number not in removed}
    for token, number in kept.items():
        if new.token_to_id(token) != new_ids[number]:
            raise _differs(name, token)
    surplus = new.get_vocab(with_added_tokens=True).keys() - kept.keys()
    if surplus:
        raise _differs(name, min(surplus))
    skipped = set(removed)
    model = vocabulary.parsed.model
    if model.type == "WordPiece" and model.unk_token in vocabulary.ids:
        skipped.add(vocabulary.ids[model.unk_token])
    numbers = sorted(kept.values())
    runs = [numbers[at : at + WINDOW_TOKENS] for at in range(0, len(numbers), WINDOW_TOKENS)]
    every = [[number] for number in numbers] + runs
    with _errors_in(name):
        checked = old.decode_batch(every, skip_special_tokens=False)
    for batch in _batches(chain(checked, texts)):
        for text, before, after in zip(
            batch, encoded(old, batch, name), encoded(new, batch, name), strict=True
        ):
            if skipped.isdisjoint(before) and after != [new_ids[number] for number in before]:
                raise _differs(name, text)


def _differs(name: str, text: str) -> RecipeError:
    return RecipeError(
        "{file}: without the pruned tokens, {text!r} would not be encoded as before. Leave the "
        "vocabulary unpruned.",
        file=name,
        text=text[:60],
    )


@dataclass(frozen=True, slots=True)
class TokenSelection:
    """The ids of the tokens that a step prunes, ascending, and how many listed ones stay."""

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
    return _selected(vocabulary, path, method.listed is not None, FileStamps.of([path]))


@lru_cache(maxsize=4)
def _selected(vocabulary: Vocabulary, path: Path, is_list: bool, _: FileStamps) -> TokenSelection:
    if is_list:
        wanted = _listed(vocabulary, path)
    else:
        wanted = set(vocabulary.ids.values())
        name, texts = vocabulary.file_name, corpus_texts(path)
        tokenizer = load_tokenizer(vocabulary.content, name)
        for ids in encoded(tokenizer, texts, name, add_special_tokens=False):
            wanted.difference_update(ids)
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
                "{path}, line {line}: {token!r} is not in {vocabulary}. Write tokens as they "
                "are there.",
                path=path,
                line=line,
                token=token[:60],
                vocabulary=vocabulary.file_name,
            )
        wanted.add(vocabulary.ids[token])
    return wanted


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
