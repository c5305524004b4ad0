"""The parts of tokenizer.json, of the library ``tokenizers``, that contain tokens, checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints

from prune_gui.monitor import check_cancelled

Token = Annotated[str, StringConstraints(strict=True, max_length=4096)]
Id = Annotated[int, Field(strict=True, ge=0, le=1 << 24)]
BYTE_FALLBACKS: Final = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""The tokens of single bytes, for characters that have no token."""
Json = dict[str, object]
ID_SUFFIXES: Final = ("_token_id", "_token_ids", "_token_index", "_token_indices")
"""Of fields with an id or a list of ids, which the network needs."""
SUPPRESSED: Final = ("suppress_tokens", "begin_suppress_tokens")
"""Fields with a list of ids; removed tokens need not be suppressed."""
BAD_WORDS: Final = "bad_words_ids"  # a field with a list of lists of ids
MAX_DEPTH: Final = 4


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Model(_Part):
    def needed_by(self, kept: Iterable[Token]) -> set[Token]:
        """Return the tokens without which the kept ones would not be found."""
        return set()


class _ModelWithIds(_Model):
    vocab: dict[Token, Id]

    def tokens(self) -> Iterator[tuple[Token, int]]:
        """Yield each token with its id."""
        yield from self.vocab.items()

    def without(self, removed: frozenset[Token], new_ids: Sequence[int]) -> dict[str, object]:
        """Return the changed fields for the model without some tokens."""
        kept = {token: new_ids[old] for token, old in self.vocab.items() if token not in removed}
        return {"vocab": kept}


class WordPiece(_ModelWithIds):
    """Greedy longest match first: without a token, what does not contain it stays as it is."""

    type: Literal["WordPiece"]
    unk_token: Token = "[UNK]"

    def required(self) -> Iterator[Token]:
        """Yield the tokens that the model needs."""
        yield self.unk_token


class Unigram(_Model):
    """The most likely segmentation: it stays the best one while others are removed.

    The token of the lowest score stays, because the score of unknown characters depends on it.
    """

    type: Literal["Unigram"]
    vocab: tuple[tuple[Token, FiniteFloat], ...]
    unk_id: Id | None = None
    byte_fallback: bool = False

    def tokens(self) -> Iterator[tuple[Token, int]]:
        """Yield each token with its id."""
        for number, (token, _) in enumerate(self.vocab):
            yield token, number

    def required(self) -> Iterator[Token]:
        """Yield the tokens that the model needs."""
        if self.vocab:
            yield min(self.vocab, key=lambda entry: entry[1])[0]
        if self.unk_id is not None and self.unk_id < len(self.vocab):
            yield self.vocab[self.unk_id][0]
        if self.byte_fallback:
            yield from BYTE_FALLBACKS

    def without(self, removed: frozenset[Token], new_ids: Sequence[int]) -> dict[str, object]:
        """Return the changed fields for the model without some tokens."""
        vocab = [list(entry) for entry in self.vocab if entry[0] not in removed]
        return {"vocab": vocab, "unk_id": new_id(self.unk_id, new_ids)}


class Bpe(_ModelWithIds):
    """Merges of pairs by rank: merges that make or use a removed token are dropped.

    A text whose tokens all stay needs only the merges within these tokens, and each of them comes
    in the same order as if its token were the whole text. So it is encoded as before if the tokens
    that these merges make stay, too.
    """

    type: Literal["BPE"]
    merges: tuple[tuple[Token, Token] | Token, ...]
    unk_token: Token | None = None
    byte_fallback: bool = False
    continuing_subword_prefix: Literal["", None] = None
    end_of_word_suffix: Literal["", None] = None

    def required(self) -> Iterator[Token]:
        """Yield the tokens that the model needs."""
        if self.unk_token is not None:
            yield self.unk_token
        if self.byte_fallback:
            yield from BYTE_FALLBACKS

    def needed_by(self, kept: Iterable[Token]) -> set[Token]:
        """Return the tokens without which the kept ones would not be found."""
        ranks = {pair: rank for rank, pair in enumerate(map(_pair, self.merges))}
        made_from: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for pair in ranks:
            made_from["".join(pair)].append(pair)
        needed: set[str] = set()
        pending = list(kept)
        done = set(pending)
        while pending:
            token = pending.pop()
            pairs = made_from.get(token, [])
            parts = set(pairs[0]) if len(pairs) == 1 else _merged(token, ranks) if pairs else set()
            needed |= parts
            pending += parts - done
            done |= parts
        return needed & self.vocab.keys()

    def without(self, removed: frozenset[Token], new_ids: Sequence[int]) -> dict[str, object]:
        """Return the changed fields for the model without some tokens."""
        merges = [
            merge if isinstance(merge, str) else list(merge)
            for merge in self.merges
            if removed.isdisjoint((*_pair(merge), "".join(_pair(merge))))
        ]
        return {**super().without(removed, new_ids), "merges": merges}


class AddedToken(_Part):
    """A token that is found in the text before the model reads it."""

    id: Id
    content: Token


class TokenizerContent(_Part):
    """What tokenizer.json contains, other than what refers to no token."""

    model: Annotated[WordPiece | Unigram | Bpe, Field(discriminator="type")]
    added_tokens: tuple[AddedToken, ...] = ()


def byte_characters() -> frozenset[str]:
    """Return the 256 characters that stand for bytes in byte-level models.

    Printable bytes stand for themselves, the others for characters from U+0100 on, as in the
    encoder of GPT-2 (Radford et al. 2019).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = range(256, 256 + 256 - len(printable))
    return frozenset(map(chr, (*printable, *others)))


def _pair(merge: tuple[str, str] | str) -> tuple[str, str]:
    if isinstance(merge, str):
        first, _, second = merge.partition(" ")
        return first, second
    return merge


def _merged(token: str, ranks: Mapping[tuple[str, str], int]) -> set[str]:
    """Return all tokens that merging the characters of a token makes, if they become the token."""
    symbols = list(token)
    made = set(symbols)
    while len(symbols) > 1:
        check_cancelled()
        pairs = enumerate(pairwise(symbols))
        rank, at = min((ranks.get(pair, len(ranks)), index) for index, pair in pairs)
        if rank == len(ranks):
            return set()
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        made.add(symbols[at])
    return made


def needed_ids(config: Json) -> set[int]:
    """Return the ids in a config that must remain."""
    return {
        number
        for _, key, value in _fields(config)
        if key.endswith(ID_SUFFIXES)
        for number in (value if isinstance(value, list) else [value])
        if type(number) is int and number >= 0
    }


def renumber(config: Json, new_ids: Sequence[int], removed: frozenset[int]) -> dict[str, object]:
    """Renumber the ids in a config in place."""
    changes: dict[str, object] = {}
    for holder, key, value in list(_fields(config)):
        new = _renumbered_field(key, value, new_ids, removed)
        if new != value:
            holder[key] = changes[key] = new
    return changes


def new_id(number: object, new_ids: Sequence[int]) -> object:
    """Return the new value of what may be an id of a token."""
    return new_ids[number] if type(number) is int and 0 <= number < len(new_ids) else number


def _renumbered_field(
    key: str, value: object, new_ids: Sequence[int], removed: frozenset[int]
) -> object:
    if not isinstance(value, list):
        return new_id(value, new_ids) if key.endswith(ID_SUFFIXES) else value
    if key == BAD_WORDS:
        words = [word for word in value if isinstance(word, list)]
        return [
            [new_id(number, new_ids) for number in word]
            for word in words
            if not any(type(number) is int and number in removed for number in word)
        ]
    return [
        new_id(number, new_ids)
        for number in value
        if type(number) is not int or number not in removed
    ]


def _fields(config: Mapping[str, object], depth: int = 0) -> Iterator[tuple[Json, str, object]]:
    for key, value in config.items():
        if isinstance(value, dict):
            if depth < MAX_DEPTH:
                yield from _fields(value, depth + 1)
        elif key.endswith(ID_SUFFIXES) or key in (*SUPPRESSED, BAD_WORDS):
            assert isinstance(config, dict)
            yield config, key, value
