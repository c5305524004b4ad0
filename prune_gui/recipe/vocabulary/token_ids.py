"""Ids of tokens in config files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

Json = dict[str, object]

ID_SUFFIXES: Final = ("_token_id", "_token_ids", "_token_index", "_token_indices")
"""Of fields with an id or a list of ids, which the network needs."""
SUPPRESSED: Final = ("suppress_tokens", "begin_suppress_tokens")
"""Fields with a list of ids; removed tokens need not be suppressed."""
BAD_WORDS: Final = "bad_words_ids"
"""A field with a list of lists of ids."""
MAX_DEPTH: Final = 4


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
        new = _renumbered(key, value, new_ids, removed)
        if new != value:
            holder[key] = changes[key] = new
    return changes


def new_id(number: object, new_ids: Sequence[int]) -> object:
    """Return the new value of what may be an id of a token."""
    return new_ids[number] if type(number) is int and 0 <= number < len(new_ids) else number


def _renumbered(key: str, value: object, new_ids: Sequence[int], removed: frozenset[int]) -> object:
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
    """Yield the fields with ids, with the mapping that has them."""
    for key, value in config.items():
        if isinstance(value, dict):
            if depth < MAX_DEPTH:
                yield from _fields(value, depth + 1)
        elif key.endswith(ID_SUFFIXES) or key in (*SUPPRESSED, BAD_WORDS):
            assert isinstance(config, dict)
            yield config, key, value
