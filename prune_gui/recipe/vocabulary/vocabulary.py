"""The vocabulary of a checkpoint, from the files of its tokenizer in the same folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from prune_gui.checkpoint.folder import CONFIG_NAME
from prune_gui.errors import RecipeError
from prune_gui.file_stamps import FileStamps
from prune_gui.language import tr
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.recipe.vocabulary.models import (
    Json,
    TokenizerContent,
    byte_characters,
    needed_ids,
    new_id,
)
from prune_gui.regular_files import read_regular
from prune_gui.resources import resource

TOKENIZER: Final = "tokenizer.json"
VOCAB: Final = "vocab.txt"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
SPECIAL_TOKENS: Final = "special_tokens_map.json"
ADDED_TOKENS: Final = "added_tokens.json"
GENERATION_CONFIG: Final = "generation_config.json"
READ: Final = (
    TOKENIZER,
    VOCAB,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS,
    ADDED_TOKENS,
    GENERATION_CONFIG,
    CONFIG_NAME,
)
"""The files that a `Vocabulary` depends on."""
ADDED_DECODER: Final = "added_tokens_decoder"  # a field of `TOKENIZER_CONFIG`: by id, a token
MAX_FILE_BYTES: Final = 64 << 20
BERT_SPECIALS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The tokens of a checkpoint.

    Attributes:
        size: number of rows of the embedding; those without a token stay.
    """

    folder: Path
    file_name: str
    content: Json
    parsed: TokenizerContent
    ids: dict[str, int]
    required: frozenset[int]
    size: int

    def removable(self, wanted: AbstractSet[int]) -> frozenset[int]:
        """Return which of some tokens are not required, and no parts of kept tokens."""
        removable = wanted - self.required
        kept = [token for token, number in self.ids.items() if number not in removable]
        needed = {self.ids[token] for token in self.parsed.model.needed_by(kept)}
        return frozenset(self.ids.values()) & removable - needed

    def without(self, removed: frozenset[int], new_ids: Sequence[int]) -> Json:
        """Return the content of tokenizer.json without some tokens."""
        gone = frozenset(token for token, number in self.ids.items() if number in removed)
        content = dict(self.content)
        content["model"] = {
            **_mapping(content["model"]),
            **self.parsed.model.without(gone, new_ids),
        }
        content["added_tokens"] = [
            {**_mapping(entry), "id": new_ids[token.id]}
            for entry, token in zip(
                _list(content.get("added_tokens")), self.parsed.added_tokens, strict=True
            )
        ]
        padding = content.get("padding")
        if isinstance(padding, dict):
            content["padding"] = padding | {"pad_id": new_id(padding.get("pad_id"), new_ids)}
        content["post_processor"] = _processor_with(
            content.get("post_processor"), partial(new_id, new_ids=new_ids)
        )
        return content


def read_vocabulary(folder: Path, size: int) -> Vocabulary:
    """Read the vocabulary of a checkpoint; cached while the files are unchanged."""
    return _read(folder, size, FileStamps.of(folder / name for name in READ))


@lru_cache(maxsize=2)
def _read(folder: Path, size: int, _: FileStamps) -> Vocabulary:
    name, content = _content(folder)
    path = folder / name
    try:
        parsed = TokenizerContent.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(map(str, problem["loc"])) or "-"
        raise RecipeError(
            "{path}: tokens cannot be removed from this tokenizer ({field}: {reason}). "
            "WordPiece, Unigram and byte-level BPE are known. Leave the vocabulary unpruned.",
            path=path,
            field=field,
            reason=validation_message(problem),
        ) from error
    every = [*parsed.model.tokens(), *((token.content, token.id) for token in parsed.added_tokens)]
    ids = dict(every)
    outside = max(every, key=lambda entry: entry[1], default=("", 0))
    if outside[1] >= size:
        raise RecipeError(
            "{path}: {token!r} has the id {number:,}, but the embedding has {count:,} rows. "
            "Put the tokenizer of this checkpoint beside it.",
            path=path,
            token=outside[0],
            number=outside[1],
            count=size,
        )
    try:
        required = frozenset(_required(folder, content, parsed, ids))
    except RecursionError as error:
        raise _unreadable(path, tr("it is nested too deeply")) from error
    return Vocabulary(folder, name, content, parsed, ids, required, size)


def _content(folder: Path) -> tuple[str, Json]:
    if (folder / TOKENIZER).exists():
        path = folder / TOKENIZER
        try:
            content = json.loads(read_regular(path, MAX_FILE_BYTES))
        except OSError as error:
            raise _unreadable(path, error.strerror) from error
        except (ValueError, RecursionError) as error:
            raise _unreadable(path, tr("it is not valid JSON")) from error
        return TOKENIZER, _mapping(content)
    path = folder / VOCAB
    if not path.exists():
        raise RecipeError(
            "{folder}: there is no {tokenizer} and no {vocab}, so tokens cannot be removed. "
            "Put the files of the tokenizer beside the checkpoint.",
            folder=folder,
            tokenizer=TOKENIZER,
            vocab=VOCAB,
        )
    lines = read_lines(path, MAX_FILE_BYTES)
    vocab = {token: number for number, token in enumerate(lines)}
    if "[UNK]" not in vocab or not any(token.startswith("##") for token in vocab):
        raise _unreadable(path, tr("it is not a vocabulary of WordPiece"))
    return VOCAB, _word_piece(vocab, read_json(folder / TOKENIZER_CONFIG))


def read_lines(path: Path, limit: int) -> list[str]:
    """Return the lines of a text file in UTF-8."""
    try:
        text = read_regular(path, limit).decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _unreadable(path, tr("line {line} is not UTF-8 text", line=line)) from error
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def read_json(path: Path) -> Json:
    """Return the content of a JSON file that need not exist; empty if it is no valid mapping."""
    try:
        content = json.loads(read_regular(path, MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return _mapping(content)


def _word_piece(vocab: dict[str, int], config: Json) -> Json:
    """Return the tokenizer.json that transformers makes of a vocab.txt for BERT."""
    content: dict[str, Any] = json.loads(resource("networks", "word_piece.json").read_text())
    names = [name for name in BERT_SPECIALS if name in vocab]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content["added_tokens"] = [
        {"id": vocab[name], "content": name, "special": True, **plain} for name in names
    ]
    accents = config.get("strip_accents")
    content["normalizer"] |= {
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True) is not False,
        "strip_accents": accents if isinstance(accents, bool) else None,
        "lowercase": config.get("do_lower_case", True) is not False,
    }
    content["model"]["vocab"] = vocab
    return content


def is_id(key: str) -> bool:
    """Return whether a key of a mapping is an id."""
    return key.isascii() and key.isdecimal() and len(key) < 10


def _required(
    folder: Path, content: Json, parsed: TokenizerContent, ids: dict[str, int]
) -> Iterator[int]:
    yield from (token.id for token in parsed.added_tokens)
    names = set(parsed.model.required())
    parts = [content.get(key) for key in ("normalizer", "pre_tokenizer", "decoder")]
    if any('"ByteLevel"' in json.dumps(part) for part in parts):
        names |= byte_characters()
    for name in (TOKENIZER_CONFIG, SPECIAL_TOKENS):
        special = read_json(folder / name)
        names |= set(_special_names(special))
        decoder = special.get(ADDED_DECODER)
        yield from (int(key) for key in _mapping(decoder) if is_id(key))
    names |= read_json(folder / ADDED_TOKENS).keys()
    yield from (ids[name] for name in names if name in ids)
    for name in (CONFIG_NAME, GENERATION_CONFIG, TOKENIZER_CONFIG):
        yield from needed_ids(read_json(folder / name))
    padding = _mapping(content.get("padding")).get("pad_id")
    yield from (number for number in [padding] if type(number) is int)
    ids_of_processor: list[object] = []

    def collect(number: object) -> object:
        ids_of_processor.append(number)
        return number

    _processor_with(content.get("post_processor"), collect)
    yield from (number for number in ids_of_processor if type(number) is int)


def _special_names(config: Json) -> Iterator[str]:
    for key, value in config.items():
        values = value if isinstance(value, list) else [value]
        if key.endswith(("_token", "_tokens")):
            for one in values:
                text = one.get("content") if isinstance(one, dict) else one
                if isinstance(text, str):
                    yield text


def _processor_with(processor: object, change: Callable[[object], object]) -> object:
    """Return a post-processor with changed ids."""
    if not isinstance(processor, dict):
        return processor
    new = dict(processor)
    for key, value in processor.items():
        if key in ("sep", "cls") and isinstance(value, list):
            new[key] = list(map(change, value))
        elif key == "processors" and isinstance(value, list):
            new[key] = [_processor_with(item, change) for item in value]
        elif key == "special_tokens":
            new[key] = {
                name: {
                    **_mapping(entry),
                    "ids": list(map(change, _list(_mapping(entry).get("ids")))),
                }
                for name, entry in _mapping(value).items()
            }
    return new


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _unreadable(path: Path, reason: str | None) -> RecipeError:
    return RecipeError(
        "{path}: the file cannot be read: {reason}. Correct it.", path=path, reason=reason
    )
