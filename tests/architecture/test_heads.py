"""The attention heads of weights, from config.json and from a number of the user."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from prune_gui import open_checkpoint
from prune_gui.architecture.projections import attention_heads, split_evenly


@pytest.fixture
def checkpoint_of(tmp_path):
    """Return a function that opens a checkpoint with given shapes beside a config.json."""
    opened = []

    def open_with(config, **shapes):
        (tmp_path / "config.json").write_text(json.dumps(config))
        names = {name.replace("__", "."): shape for name, shape in shapes.items()}
        tensors = {name: torch.ones(shape) for name, shape in names.items()}
        save_file(tensors, tmp_path / "model.safetensors")
        opened.append(open_checkpoint(tmp_path / "model.safetensors"))
        return opened[-1]

    yield open_with
    for checkpoint in opened:
        checkpoint.close()


GPT2 = {"n_head": 4, "n_embd": 32, "model_type": "gpt2"}
BERT = {"num_attention_heads": 4, "hidden_size": 32}


@pytest.mark.parametrize(
    ("config", "name", "shape", "dim", "width", "count"),
    [
        (BERT, "layer.0.attention.self.query.weight", (32, 32), 0, 8, 4),
        (BERT, "layer.0.attention.self.query.bias", (32,), 0, 8, 4),
        (BERT, "layer.0.attention.output.dense.weight", (32, 32), 1, 8, 4),
        (BERT | {"num_key_value_heads": 2}, "layers.0.self_attn.k_proj.weight", (16, 32), 0, 8, 2),
        (BERT | {"head_dim": 16}, "layers.0.self_attn.q_proj.weight", (64, 32), 0, 16, 4),
        ({"text_config": BERT}, "layers.0.self_attn.q_proj.weight", (32, 32), 0, 8, 4),
        ({"n_head": 4, "n_embd": 32}, "h.0.attn.c_attn.weight", (32, 96), 1, 8, 12),
        ({"n_head": 4, "n_embd": 32}, "h.0.attn.c_attn.weight", (96, 32), 0, 8, 12),
        (GPT2, "h.0.attn.c_proj.weight", (32, 32), 0, 8, 4),
        (BERT, "layers.0.attention.query_key_value.weight", (96, 32), 0, 24, 4),
        (
            {"encoder_attention_heads": 2, "decoder_attention_heads": 4, "d_model": 32},
            "decoder.layers.0.self_attn.v_proj.weight", (32, 32), 0, 8, 4,
        ),
    ],
)  # fmt: skip
def test_heads_divide_the_channels_that_they_own(
    checkpoint_of, config, name, shape, dim, width, count
):
    checkpoint = checkpoint_of(config, **{name.replace(".", "__"): shape})
    heads = attention_heads(checkpoint, name)
    assert heads is not None
    assert (heads.dim, heads.width, len(heads.labels)) == (dim, width, count)
    assert len(set(heads.labels)) == count


@pytest.mark.parametrize(
    ("config", "name", "shape"),
    [
        ({}, "layer.0.attention.self.query.weight", (32, 32)),
        (BERT, "layer.0.intermediate.dense.weight", (32, 32)),
        (BERT, "layer.0.attention.self.query.weight", (48, 32)),
        (BERT, "layer.0.attention.output.dense.bias", (32,)),
        ({"num_attention_heads": -4, "hidden_size": 32}, "attention.query.weight", (32, 32)),
        ({"num_attention_heads": True, "hidden_size": 32}, "attention.query.weight", (32, 32)),
        ({"num_attention_heads": 4}, "attention.query.weight", (32, 32)),
    ],
)
def test_no_heads_are_claimed_where_they_are_not_known(checkpoint_of, config, name, shape):
    checkpoint = checkpoint_of(config, **{name.replace(".", "__"): shape})
    assert attention_heads(checkpoint, name) is None


def test_the_user_may_say_how_many_heads_there_are(checkpoint_of):
    checkpoint = checkpoint_of({}, attention__out_proj__weight=(32, 48), attention__q=(6, 4))
    heads = split_evenly(checkpoint, "attention.out_proj.weight", 6)
    assert heads is not None
    assert (heads.dim, heads.width, heads.labels[5]) == (1, 8, "5")
    assert split_evenly(checkpoint, "attention.out_proj.weight", 5) is None
    assert split_evenly(checkpoint, "attention.q", 3).width == 2
