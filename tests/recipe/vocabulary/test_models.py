"""Tokenizers without some tokens encode all other texts as before."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
from small_tokenizers import KINDS, TEXT, tokenizer_json
from tokenizers import Tokenizer, pre_tokenizers

from prune_gui.recipe.vocabulary.models import BYTE_FALLBACKS, byte_characters
from prune_gui.recipe.vocabulary.vocabulary import read_vocabulary

words = st.sampled_from(sorted({word for text in TEXT for word in text.split()}))
texts = st.lists(words | st.text(max_size=8), max_size=12).map(" ".join)


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "tokenizer.json").write_text(tokenizer_json(request.param), encoding="utf-8")
    return read_vocabulary(folder, 1000)


def without(vocabulary, removed):
    kept = sorted(set(range(vocabulary.size)) - removed)
    new_ids = [0] * vocabulary.size
    for new, old in enumerate(kept):
        new_ids[old] = new
    return Tokenizer.from_str(json.dumps(vocabulary.without(removed, new_ids))), new_ids


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 1 << 32),
    share=st.sampled_from([0.1, 0.5, 1.0]),
    corpus=st.lists(texts, max_size=6),
    others=st.lists(texts, max_size=6),
)
def test_texts_of_kept_tokens_are_encoded_as_before(vocabulary, seed, share, corpus, others):
    old = Tokenizer.from_str(json.dumps(vocabulary.content))
    found = {number for text in corpus for number in old.encode(text).ids}
    chosen = random.Random(seed)
    absent = set(vocabulary.ids.values()) - found
    removed = vocabulary.removable({number for number in absent if chosen.random() < share})
    assert removed.isdisjoint(found)
    new, new_ids = without(vocabulary, removed)
    model = vocabulary.parsed.model
    unknown = vocabulary.ids[model.unk_token] if model.type == "WordPiece" else None
    for text in [*corpus, *others, *TEXT]:
        before = old.encode(text)
        if removed.isdisjoint(before.ids) and unknown not in before.ids:
            after = new.encode(text)
            assert after.ids == [new_ids[number] for number in before.ids]
            assert after.tokens == before.tokens


def test_texts_need_no_removed_token_any_more(vocabulary):
    removed = vocabulary.removable(set(vocabulary.ids.values()))
    new, new_ids = without(vocabulary, removed)
    kept = {token for token, number in vocabulary.ids.items() if number not in removed}
    assert new.get_vocab() == {token: new_ids[vocabulary.ids[token]] for token in kept}
    for text in TEXT:
        assert {new.id_to_token(number) for number in new.encode(text).ids} <= kept


def test_special_tokens_and_bytes_stay(vocabulary):
    removable = vocabulary.removable(set(vocabulary.ids.values()))
    names = {token for token, number in vocabulary.ids.items() if number in removable}
    added = {token.content for token in vocabulary.parsed.added_tokens}
    assert names
    assert names.isdisjoint(added | set(BYTE_FALLBACKS))
    if vocabulary.content["pre_tokenizer"]["type"] == "ByteLevel":
        assert names.isdisjoint(byte_characters())


def test_the_characters_of_bytes_are_those_of_the_library():
    assert byte_characters() == set(pre_tokenizers.ByteLevel.alphabet())


def test_unknown_characters_of_unigram_cost_as_much_as_before(tmp_path):
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("unigram"), encoding="utf-8")
    vocabulary = read_vocabulary(tmp_path, 1000)
    lowest, _ = min(vocabulary.parsed.model.vocab, key=lambda entry: entry[1])
    assert vocabulary.ids[lowest] not in vocabulary.removable(set(vocabulary.ids.values()))
