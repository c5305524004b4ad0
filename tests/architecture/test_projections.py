"""The projections of parameters, with the names that real checkpoints use."""

from __future__ import annotations

import pytest

from prune_gui.architecture.projections import projection

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
