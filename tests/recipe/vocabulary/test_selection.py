"""Steps that prune tokens, errors of their files, and tokenizers without some tokens."""

import json
import random
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
from applied import applied
from small_tokenizers import KINDS, TEXT, save_llama, tokenizer_json, vocabulary_of
from tokenizers import Tokenizer, pre_tokenizers

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.errors import PruneGuiError, RecipeError
from prune_gui.recipe.vocabulary.models import BYTE_FALLBACKS, byte_characters
from prune_gui.recipe.vocabulary.vocabulary import read_vocabulary

EMBEDDING = "model.embed_tokens.weight"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 1 << 70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@pytest.fixture
def folder(tmp_path):
    save_llama(tmp_path / "llama", tokenizer_json("byte_bpe"), padding=3)
    return tmp_path / "llama"


def pruned(folder, **fields):
    recipe = Recipe(steps=[{"method": "tokens", "targets": [EMBEDDING], **fields}])
    with applied(folder / "model.safetensors", recipe) as resolution:
        gone = ~resolution.mask(EMBEDDING).any(1)
        assert (gone == ~resolution.mask("lm_head.weight").any(1)).all()
        return set(gone.nonzero()[:, 0].tolist()), resolution.outcomes[0].notes


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_listed_tokens_are_pruned_in_embedding_and_head(folder):
    ids = vocabulary_of((folder / "tokenizer.json").read_text())
    listed = written(folder, "list.txt", "Ġtogether\n\nĠvocabulary\r\n<|end|>\na\n")
    found, notes = pruned(folder, listed=listed)
    assert found == {ids["Ġtogether"], ids["Ġvocabulary"]}
    assert "2 listed tokens stay" in notes[EMBEDDING]


def test_tokens_that_a_corpus_lacks_are_pruned(folder):
    corpus = written(folder, "corpus.txt", "the cat sat on\nthe mat\n")
    found, notes = pruned(folder, corpus=corpus)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.get_vocab()
    assert EMBEDDING not in notes
    assert found.isdisjoint(tokenizer.encode("the cat sat on\nthe mat\n").ids)
    assert {ids["Ġtogether"], ids["Ġvocabulary"]} < found < set(ids.values())


def test_a_changed_list_is_read_again(folder):
    ids = vocabulary_of((folder / "tokenizer.json").read_text())
    listed = written(folder, "list.txt", "Ġtogether\n")
    recipe = Recipe(steps=[{"method": "tokens", "targets": [EMBEDDING], "listed": listed}])
    with open_checkpoint(folder / "model.safetensors") as checkpoint:
        before = resolve(recipe, checkpoint)
        assert before.is_current
        written(folder, "list.txt", "Ġvocabulary\n")
        assert not before.is_current
        after = resolve(recipe, checkpoint)
        assert not after.mask(EMBEDDING)[ids["Ġvocabulary"]].any()
        assert after.mask(EMBEDDING)[ids["Ġtogether"]].all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ġthe\nnowhere\n", r"list.txt, line 2: 'nowhere' is not in tokenizer.json"),
        ("<|end|>\n", "no token can be removed"),
        ("", "no token can be removed"),
        (b"a\n\xff\n", "line 2 is not UTF-8"),
    ],
)
def test_a_wrong_list_is_one_clear_message(folder, text, message):
    with pytest.raises(RecipeError, match=message):
        pruned(folder, listed=written(folder, "list.txt", text))


def test_a_list_that_cannot_be_read_is_one_clear_message(folder):
    with pytest.raises(RecipeError, match="the file cannot be read"):
        pruned(folder, listed=str(folder / "missing.txt"))
    with pytest.raises(RecipeError, match="not a regular file"):
        pruned(folder, listed=str(folder))


def test_either_a_list_or_a_corpus_is_needed():
    for fields in ({}, {"listed": "a", "corpus": "b"}):
        step = {"method": "tokens", "targets": ["*"], **fields}
        with pytest.raises(RecipeError, match="either a list of tokens or a corpus"):
            Recipe.validated({"steps": [step]}, "recipe.yaml", None)


def test_targets_without_tokens_are_refused(folder):
    recipe = Recipe(steps=[{"method": "tokens", "targets": ["*.mlp.*"], "listed": "x.txt"}])
    with (
        open_checkpoint(folder / "model.safetensors") as checkpoint,
        pytest.raises(RecipeError, match=f"such as {EMBEDDING}"),
    ):
        resolve(recipe, checkpoint)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["model"].update(type="WordLevel"), "tokens cannot be removed"),
        (lambda content: content["model"].update(merges=[["a", 1]]), "tokens cannot be removed"),
        (lambda content: content["model"].update(end_of_word_suffix="@"), "cannot be removed"),
        (lambda content: content["model"]["vocab"].update({"x y": 999}), "has the id 999"),
        (lambda content: content["model"]["vocab"].update({"x y": -1}), "cannot be removed"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_one_clear_message(folder, change, message):
    content = json.loads(tokenizer_json("byte_bpe"))
    change(content)
    written(folder, "tokenizer.json", json.dumps(content))
    with pytest.raises(RecipeError, match=message):
        pruned(folder, listed=written(folder, "list.txt", "Ġtogether\n"))


def test_a_text_that_the_library_cannot_encode_is_one_clear_message(folder):
    content = json.loads(tokenizer_json("unigram"))
    content["model"]["unk_id"] = None
    written(folder, "tokenizer.json", json.dumps(content))
    with pytest.raises(RecipeError, match=r"tokenizer.json: the tokenizers library cannot use it"):
        pruned(folder, corpus=written(folder, "corpus.txt", "\u4e2d"))


def test_without_a_tokenizer_there_is_one_clear_message(folder):
    listed = written(folder, "list.txt", "Ġtogether\n")
    written(folder, "tokenizer.json", "{")
    with pytest.raises(RecipeError, match="not valid JSON"):
        pruned(folder, listed=listed)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RecipeError, match=r"no tokenizer.json and no vocab.txt"):
        pruned(folder, listed=listed)
    written(folder, "vocab.txt", "a\nb\n")
    with pytest.raises(RecipeError, match="not a vocabulary of WordPiece"):
        pruned(folder, listed=listed)


def test_dead_units_are_no_tokens(folder):
    listed = written(folder, "l.txt", "Ġtogether\n")
    tokens = {"method": "tokens", "targets": [EMBEDDING], "listed": listed}
    steps = [tokens, {"method": "dead_units", "targets": ["*"]}]
    with applied(folder / "model.safetensors", Recipe(steps=steps)) as resolution:
        protected = Recipe(steps=steps[1:], protect=[EMBEDDING])
        assert EMBEDDING not in resolve(protected, resolution.checkpoint).layers
    assert EMBEDDING not in resolution.outcomes[1].pruned


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_content_is_read_or_refused(tmp_path, data):
    kind = data.draw(st.sampled_from(["word_piece", "byte_bpe", "unigram"]))
    content = deepcopy(json.loads(tokenizer_json(kind)))
    for _ in range(data.draw(st.integers(1, 3))):
        holder = content
        while True:
            if not isinstance(holder, dict | list) or not holder:
                break
            keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()) or not isinstance(holder[key], dict | list):
                holder[key] = data.draw(json_values)
                break
            holder = holder[key]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    try:
        vocabulary = read_vocabulary(tmp_path, 500)
        removed = vocabulary.removable(set(range(500)))
        vocabulary.without(removed, [0] * 500)
    except PruneGuiError:
        pass


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
