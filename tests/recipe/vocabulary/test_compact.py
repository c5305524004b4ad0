"""Compact checkpoints without some tokens, and the files of their tokenizers."""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("tokenizers")
from applied import exported
from small_tokenizers import TEXT, save_llama, tokenizer_json
from tokenizers import Tokenizer

from prune_gui import Recipe
from prune_gui.errors import RecipeError

CORPUS = "the cat sat on the mat\nthis is what a network does"
EMBEDDING = "*embed*"


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text(CORPUS, encoding="utf-8")
    return str(tmp_path / "corpus.txt")


def compact(source, out, corpus, start="dense", *, targets=(EMBEDDING,)):
    """Write the compact form without the tokens that a corpus lacks."""
    step = {"method": "tokens", "targets": list(targets), "corpus": corpus}
    exported(source / "model.safetensors", out, Recipe(start=start, steps=[step]), "compact")


@pytest.mark.parametrize("kind", ["word_piece", "byte_bpe", "fallback_bpe", "unigram"])
def test_tensors_config_and_tokenizer_lose_the_same_tokens(kind, tmp_path, corpus):
    source, out = tmp_path / "source", tmp_path / "out"
    save_llama(source, tokenizer_json(kind), padding=3)
    compact(source, out, corpus)
    old = Tokenizer.from_file(str(source / "tokenizer.json"))
    new = Tokenizer.from_file(str(out / "tokenizer.json"))
    before, after = load_file(source / "model.safetensors"), load_file(out / "model.safetensors")
    rows = after["lm_head.weight"].shape[0]
    assert json.loads((out / "config.json").read_text())["vocab_size"] == rows
    assert new.get_vocab_size() == rows - 3 < old.get_vocab_size()
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        for token, number in new.get_vocab().items():
            assert torch.equal(after[name][number], before[name][old.token_to_id(token)])
        assert torch.equal(after[name][-3:], before[name][-3:])
    for line in CORPUS.split("\n"):
        assert new.encode(line).tokens == old.encode(line).tokens


def test_ids_in_all_files_are_renumbered(tmp_path, corpus):
    source, out = tmp_path / "source", tmp_path / "out"
    content = tokenizer_json("byte_bpe")
    save_llama(source, content)
    old = json.loads(content)
    vocab, end = old["model"]["vocab"], old["added_tokens"][1]["id"]
    the, together = vocab["Ġthe"], vocab["Ġtogether"]
    merges = [" ".join(pair) for pair in old["model"]["merges"]]
    files = {
        "generation_config.json": {
            "eos_token_id": [end, 10**6],
            "suppress_tokens": [the, together],
            "bad_words_ids": [[the], [the, together]],
            "max_length": 20,
        },
        "tokenizer_config.json": {"added_tokens_decoder": {str(end): {"content": "<|end|>"}}},
        "added_tokens.json": {"<|end|>": end},
        "vocab.json": vocab,
    }
    for name, fields in files.items():
        (source / name).write_text(json.dumps(fields))
    lines = ["#version: 0.2", *merges]
    (source / "merges.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (source / "tokenizer.model").write_bytes(b"the old vocabulary")
    (source / "chat_template.jinja").write_text("{{ messages }}")
    compact(source, out, corpus)
    read = {path.name: path for path in out.iterdir()}
    new = json.loads(read["tokenizer.json"].read_text())
    new_vocab = new["model"]["vocab"]
    new_end, new_the = new["added_tokens"][1]["id"], new_vocab["Ġthe"]
    assert (new_end, "Ġtogether" in new_vocab) == (len(new_vocab), False)
    assert new["post_processor"]["special_tokens"]["<|end|>"]["ids"] == [new_end]
    assert json.loads(read["generation_config.json"].read_text()) == {
        "eos_token_id": [new_end, 10**6],
        "suppress_tokens": [new_the],
        "bad_words_ids": [[new_the]],
        "max_length": 20,
    }
    config = json.loads(read["config.json"].read_text())
    assert (config["eos_token_id"][0], config["pad_token_id"]) == (new_end, None)
    decoder = json.loads(read["tokenizer_config.json"].read_text())["added_tokens_decoder"]
    assert decoder == {str(new_end): {"content": "<|end|>"}}
    assert json.loads(read["added_tokens.json"].read_text()) == {"<|end|>": new_end}
    assert json.loads(read["vocab.json"].read_text()) == new_vocab
    new_merges = [" ".join(pair) for pair in new["model"]["merges"]]
    assert read["merges.txt"].read_text(encoding="utf-8").splitlines() == [lines[0], *new_merges]
    assert 0 < len(new_merges) < len(merges)
    assert "tokenizer.model" not in read
    assert read["chat_template.jinja"].read_text() == "{{ messages }}"


def test_a_vocabulary_of_word_piece_alone_is_rewritten(tmp_path, corpus):
    source, out = tmp_path / "source", tmp_path / "out"
    content = tokenizer_json("word_piece")
    save_llama(source, content)
    (source / "tokenizer.json").unlink()
    vocab = json.loads(content)["model"]["vocab"]
    lines = sorted(vocab, key=vocab.get)
    (source / "vocab.txt").write_text("".join(f"{token}\n" for token in lines))
    compact(source, out, corpus)
    kept = (out / "vocab.txt").read_text().splitlines()
    assert kept == [token for token in lines if token in set(kept)]
    assert {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "mat"} < set(kept)
    assert "together" not in kept
    rows = load_file(out / "model.safetensors")["lm_head.weight"].shape[0]
    assert rows == len(kept) < len(vocab)
    assert not (out / "tokenizer.json").exists()


def test_zero_rows_stay_unless_a_step_prunes_tokens(tmp_path, corpus):
    source, out = tmp_path / "source", tmp_path / "out"
    save_llama(source, tokenizer_json("unigram"), tied=True)
    state = load_file(source / "model.safetensors")
    state["model.embed_tokens.weight"][[0, 1, 2, 5]] = 0
    save_file(state, source / "model.safetensors", {"format": "pt"})
    with pytest.raises(RecipeError, match="nothing can be removed"):
        exported(source / "model.safetensors", out, Recipe(start="zeros"), "compact")
    compact(source, out, corpus, start="zeros")
    new = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert [new.token_to_id(token) for token in ("<pad>", "</s>", "<unk>")] == [0, 1, 2]
    assert load_file(out / "model.safetensors")["model.embed_tokens.weight"][:3].eq(0).all()


def test_nothing_is_written_if_the_verification_fails(tmp_path, corpus, monkeypatch):
    source, out = tmp_path / "source", tmp_path / "out"
    save_llama(source, tokenizer_json("byte_bpe"))
    keep_no_parts = lambda model, kept: set()  # noqa: E731
    monkeypatch.setattr("prune_gui.recipe.vocabulary.models.Bpe.needed_by", keep_no_parts)
    with pytest.raises(RecipeError, match="would not be encoded as before"):
        compact(source, out, corpus)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(RecipeError, match=r"Install prune-gui\[tokens\]"):
        compact(source, out, corpus)
    assert not out.exists()


def test_a_single_file_cannot_lose_tokens(tmp_path, corpus):
    save_llama(tmp_path / "source", tokenizer_json("byte_bpe"))
    with pytest.raises(RecipeError, match="Save to a folder"):
        compact(tmp_path / "source", tmp_path / "out.safetensors", corpus)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("model_class", "kind", "fields"),
    [
        ("BertForMaskedLM", "word_piece", {"hidden_size": 16, "intermediate_size": 12}),
        ("GPT2LMHeadModel", "byte_bpe", {"n_embd": 16, "bos_token_id": 0, "eos_token_id": 0}),
        ("LlamaForCausalLM", "fallback_bpe", {"hidden_size": 16, "intermediate_size": 12}),
        ("Qwen2ForCausalLM", "byte_bpe", {"num_key_value_heads": 2, "hidden_size": 16}),
        ("T5ForConditionalGeneration", "unigram", {"d_model": 16, "d_kv": 8, "num_heads": 2}),
    ],
)
def test_transformers_gives_the_same_outputs_for_kept_tokens(
    model_class, kind, fields, tmp_path, corpus
):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()  # it leaves a thread
    source, out = tmp_path / "source", tmp_path / "out"
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer_json(kind)), pad_token=None
    )
    load = getattr(transformers, model_class).from_pretrained
    config = getattr(transformers, model_class).config_class(
        vocab_size=len(tokenizer) + 5, num_hidden_layers=1, num_attention_heads=2, **fields
    )
    getattr(transformers, model_class)(config).save_pretrained(source)
    tokenizer.save_pretrained(source)
    compact(source, out, corpus, targets=["*embed*", "*wte*", "*shared*"])
    old, new = (transformers.PreTrainedTokenizerFast.from_pretrained(at) for at in (source, out))
    assert len(new) < len(old)
    model, remarks = load(out, output_loading_info=True)
    assert not any(remarks.values()), remarks
    original = load(source).eval()
    texts = [*CORPUS.split("\n"), TEXT[0][:22]]
    kept = torch.tensor(
        [old.convert_tokens_to_ids(new.convert_ids_to_tokens(i)) for i in range(len(new))]
    )
    for text in texts:
        before, after = (one(text, return_tensors="pt").input_ids for one in (old, new))
        assert torch.equal(kept[after], before)
        logits = [outputs(*pair) for pair in ((original, before), (model.eval(), after))]
        torch.testing.assert_close(logits[0][..., kept], logits[1][..., : len(new)])


def outputs(model, tokens):
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            return model(input_ids=tokens, decoder_input_ids=tokens.flip(1)).logits
        return model(input_ids=tokens).logits
