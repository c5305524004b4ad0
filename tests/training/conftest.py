"""Fixtures of the tests of training."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _single_thread(set_torch_threads):
    set_torch_threads(1)  # threads only wait for each other on tensors this small


@pytest.fixture
def llama_folder(tmp_path):
    """A folder with a tiny Llama, half of whose q projection is 0, and a tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    config = LlamaConfig(
        vocab_size=8, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    weight = model.get_parameter("model.layers.0.self_attn.q_proj.weight")
    with torch.no_grad():
        weight[:, ::2] = 0
    model.save_pretrained(tmp_path / "llama")
    words = Tokenizer(models.WordLevel({c: i for i, c in enumerate("abcdefg?")}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?", pad_token="?")
    tokenizer.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"
