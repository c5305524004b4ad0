"""Small tokenizers of each kind, and checkpoints with them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer

TEXT = [
    "the cat sat on the mat and the other cat sat on that mat",
    "this is the third thing that they think through together",
    "pruning networks removes what a network does not need",
    "a token that no text has can be removed from the vocabulary",
    "naïve café über straße, 1234 5678! (yes) [no] {maybe}",
]
KINDS = ["word_piece", "byte_bpe", "fallback_bpe", "unigram"]


@cache
def tokenizer_json(kind: str) -> str:
    """Return the content of tokenizer.json of a tokenizer trained on `TEXT`."""
    return _trained(kind).to_str()


def _trained(kind: str) -> Tokenizer:
    match kind:
        case "word_piece":
            tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            tokenizer.normalizer = normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.decoder = decoders.WordPiece()
            specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
            trainer = WordPieceTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
            tokenizer.train_from_iterator(TEXT, trainer)
            tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        case "byte_bpe":
            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            trainer = BpeTrainer(
                vocab_size=400,
                special_tokens=["<|endoftext|>"],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            )
            tokenizer.train_from_iterator(TEXT, trainer)
            tokenizer.add_special_tokens(["<|end|>"])
            end = tokenizer.token_to_id("<|end|>")
            tokenizer.post_processor = processors.TemplateProcessing(
                single="$A <|end|>", special_tokens=[("<|end|>", end)]
            )
        case "fallback_bpe":
            tokenizer = _fallback_bpe()
        case "unigram":
            tokenizer = Tokenizer(models.Unigram())
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
            tokenizer.decoder = decoders.Metaspace()
            trainer = UnigramTrainer(
                vocab_size=120,
                special_tokens=["<pad>", "</s>", "<unk>"],
                unk_token="<unk>",
                show_progress=False,
            )
            tokenizer.train_from_iterator(TEXT, trainer)
            tokenizer.post_processor = processors.TemplateProcessing(
                single="$A </s>", special_tokens=[("</s>", 1)]
            )
    return tokenizer


def _fallback_bpe() -> Tokenizer:
    """Return a BPE as converted from SentencePiece: all splits of a token into two are merges."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(TEXT, BpeTrainer(vocab_size=220, show_progress=False))
    letters = sorted(trained.get_vocab(), key=trained.token_to_id)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    vocab = {token: number for number, token in enumerate(tokens)}
    merges = [
        (token[:at], token[at:])
        for token in letters
        for at in range(1, len(token))
        if token[:at] in vocab and token[at:] in vocab
    ]
    tokenizer = Tokenizer(
        models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def vocabulary_of(content: str) -> dict[str, int]:
    """Return the ids of all tokens."""
    return Tokenizer.from_str(content).get_vocab(with_added_tokens=True)


def save_llama(folder: Path, content: str, *, padding: int = 0, tied: bool = False) -> None:
    """Write a checkpoint with the names of Llama, and files of its tokenizer.

    Args:
        folder: a folder to create.
        content: the content of tokenizer.json.
        padding: rows of the embedding after the last token.
        tied: whether the output head is not stored.
    """
    vocab = vocabulary_of(content)
    rows = len(vocab) + padding
    end = max(vocab.values())
    torch.manual_seed(0)
    state = {"model.embed_tokens.weight": torch.randn(rows, 8)}
    if not tied:
        state["lm_head.weight"] = torch.randn(rows, 8)
    for name in ("q", "k", "v", "o"):
        state[f"model.layers.0.self_attn.{name}_proj.weight"] = torch.randn(8, 8)
    for name, shape in {"gate": (12, 8), "up": (12, 8), "down": (8, 12)}.items():
        state[f"model.layers.0.mlp.{name}_proj.weight"] = torch.randn(shape)
    folder.mkdir()
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    config = {
        "model_type": "llama",
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "vocab_size": rows,
        "bos_token_id": 1,
        "eos_token_id": [end, 2],
        "pad_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
