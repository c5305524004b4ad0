"""The attention heads of weights, from config.json and from a number of the user."""

from __future__ import annotations

import pytest

from prune_gui.architecture.projections import attention_heads, projection, split_evenly

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
    checkpoint = checkpoint_of(config, {name: shape})
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
    checkpoint = checkpoint_of(config, {name: shape})
    assert attention_heads(checkpoint, name) is None


def test_the_user_may_say_how_many_heads_there_are(checkpoint_of):
    checkpoint = checkpoint_of({}, {"attention.out_proj.weight": (32, 48), "attention.q": (6, 4)})
    heads = split_evenly(checkpoint, "attention.out_proj.weight", 6)
    assert heads is not None
    assert (heads.dim, heads.width, heads.labels[5]) == (1, 8, "5")
    assert split_evenly(checkpoint, "attention.out_proj.weight", 5) is None
    assert split_evenly(checkpoint, "attention.q", 3).width == 2


NAMES = {
    "encoder.layer.0.attention.self.query.weight": "q",
    "encoder.layer.0.attention.output.dense.weight": "o",
    "encoder.layer.0.intermediate.dense.weight": "up",
    "encoder.layer.0.output.dense.weight": "down",
    "model.layers.11.self_attn.k_proj.weight": "k",
    "model.layers.11.self_attn.o_proj.weight": "o",
    "model.layers.11.mlp.gate_proj.weight": "gate",
    "model.layers.11.block_sparse_moe.experts.3.w2.weight": "down",
    "h.0.attn.c_attn.weight": "qkv",
    "h.0.attn.c_proj.weight": "o",
    "h.0.mlp.c_fc.weight": "up",
    "h.0.mlp.c_proj.weight": "down",
    "gpt_neox.layers.0.attention.query_key_value.weight": "qkv",
    "gpt_neox.layers.0.attention.dense.weight": "o",
    "gpt_neox.layers.0.mlp.dense_4h_to_h.weight": "down",
    "decoder.block.0.layer.0.SelfAttention.v.weight": "v",
    "decoder.block.0.layer.2.DenseReluDense.wi_0.weight": "gate",
    "decoder.block.0.layer.2.DenseReluDense.wo.weight": "down",
    "layers.0.attention.wo.weight": "o",
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0.weight": "o",
    "blocks.0.attn.proj.weight": "o",
    "transformer.encoder.layers.0.self_attn.in_proj_weight": "qkv",
    "transformer.encoder.layers.0.linear1.weight": "up",
    "down_blocks.0.transformer_blocks.0.ff.net.0.proj.weight": "up",
    "embeddings.word_embeddings.weight": None,
    "features.1.conv.0.0.weight": None,
    "layer1.0.conv1.weight": None,
    "key.weight": "k",
    "blk.0.attn_q.weight": "q",
    "blk.0.attn_k.bias": "k",
    "blk.0.attn_v.weight": "v",
    "blk.0.attn_qkv.weight": "qkv",
    "blk.0.attn_output.weight": "o",
    "blk.0.ffn_gate.weight": "gate",
    "blk.0.ffn_up.weight": "up",
    "blk.0.ffn_down.weight": "down",
    "blk.0.attn_norm.weight": None,
    "token_embd.weight": None,
    "weight": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_the_projection_of_a_parameter_is_recognized_from_its_name(name):
    assert projection(name) == NAMES[name]
