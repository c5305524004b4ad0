"""Which dimensions of weights have channels and attention heads, and how that is known."""

import pytest
from fake_checkpoint import FakeCheckpoint

from prune_gui.architecture.projections import attention_heads, projection, split_evenly
from prune_gui.architecture.weight_layouts import weight_layout

GPT2 = {"h.0.attn.c_attn": (6, 18), "h.0.attn.c_proj": (6, 6), "h.0.mlp.c_fc": (6, 24)}
OTHER_WAY = {name: shape[::-1] for name, shape in GPT2.items()}


def layers(shapes, *, bias=None, leaf="weight"):
    """Return the shapes of layers, and of their biases, which have the length of a dimension."""
    tensors = {f"{name}.{leaf}": shape for name, shape in shapes.items()}
    if bias is not None:
        tensors |= {f"{name}.bias": (shape[bias],) for name, shape in shapes.items()}
    return tensors


# The tensors of a checkpoint, what else is known of it, and the output and input dimensions of the
# weights; (0, 1) for those that are not listed.
CASES = {
    "gpt2 by config": (
        layers({"h.0.attn.c_proj": (6, 6)}),
        {"model_type": "gpt2"},
        {"h.0.attn.c_proj": (1, 0)},
    ),
    "gpt2 by biases": (layers(GPT2, bias=1), {}, dict.fromkeys(GPT2, (1, 0))),
    "gpt2 by its joined projections": (layers(GPT2), {}, dict.fromkeys(GPT2, (1, 0))),
    "Linear of the same names": (layers(OTHER_WAY, bias=0), {}, {}),
    "Linear of the same names without biases": (layers(OTHER_WAY), {}, {}),
    "Linear in spite of config": (layers(OTHER_WAY, bias=0), {"model_type": "gpt2"}, {}),
    "square without evidence": (layers({"a": (6, 6)}, bias=1), {}, {}),
    "square in a group": (
        layers({"fc1": (6, 6), "fc2": (6, 8)}, bias=1),
        {},
        {"fc1": (1, 0), "fc2": (1, 0)},
    ),
    "contradicting": (
        layers({"fc1": (6, 6), "fc2": (6, 8)}, bias=1) | layers({"fc3": (4, 8)}, bias=0),
        {},
        {"fc2": (1, 0)},
    ),
    "ConvTranspose": (
        layers({"up.0": (6, 4, 3), "up.1": (4, 4, 3)}, bias=1),
        {},
        {"up.0": (1, 0), "up.1": (1, 0)},
    ),
    "ConvTranspose under weight norm": (
        layers({"up": (6, 4, 3)}, bias=1, leaf="weight_v"),
        {},
        {"up": (1, 0)},
    ),
    "ConvTranspose by parametrization": (
        {"up.parametrizations.weight.original1": (6, 4, 3), "up.bias": (4,)},
        {},
        {"up.parametrizations.weight.original1": (1, 0)},
    ),
    "Conv": (layers({"a": (8, 3, 3, 3), "b": (3, 8, 3, 3), "c": (9, 1, 9)}, bias=0), {}, {}),
    "ConvTranspose by class": (
        layers({"up": (4, 4, 3)}),
        {"classes": {"up": "torch.nn.modules.conv.ConvTranspose1d"}},
        {"up": (1, 0)},
    ),
    "Linear by class": (
        layers({"a": (4, 6)}, bias=1),
        {"classes": {"a": "torch.nn.modules.linear.Linear"}},
        {},
    ),
    "flax": (
        layers({"params.Dense_0": (4, 6), "params.Conv_0": (3, 3, 4, 6)}, leaf="kernel"),
        {"format": "flax"},
        {"params.Dense_0": (1, 0), "params.Conv_0": (3, 2)},
    ),
    "flax in safetensors": (
        layers({"params.Dense_0": (4, 6)}, leaf="kernel") | {"params.Embed_0.embedding": (9, 4)},
        {},
        {"params.Dense_0": (1, 0)},
    ),
    "a kernel of torch": (
        layers({"blur": (4, 1, 3, 3)}, leaf="kernel") | layers({"a": (4, 6)}),
        {},
        {},
    ),
    "keras": (
        {
            "layers.dense.vars.0": (4, 6),
            "layers.lstm.cell.vars.1": (6, 24),
            "layers.conv2d.vars.0": (3, 3, 4, 6),
            "layers.conv2d_transpose.vars.0": (3, 3, 6, 4),
            "layers.depthwise_conv2d.vars.0": (3, 3, 4, 1),
            "layers.embedding.vars.0": (9, 4),
            "layers.dense.vars.1": (6,),
        },
        {"format": "keras"},
        {
            "layers.dense.vars.0": (1, 0),
            "layers.lstm.cell.vars.1": (1, 0),
            "layers.conv2d.vars.0": (3, 2),
            "layers.conv2d_transpose.vars.0": (2, 3),
            "layers.depthwise_conv2d.vars.0": (2, 3),
        },
    ),
    "keras of TensorFlow": (
        {"dense.dense.kernel:0": (4, 6), "emb.emb.embeddings:0": (9, 4)},
        {"format": "hdf5"},
        {"dense.dense.kernel:0": (1, 0)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_layout_of_each_weight(case):
    tensors, known, expected = CASES[case]
    checkpoint = FakeCheckpoint(known.get("model_type"), {}, tensors)
    checkpoint.format = known.get("format", "safetensors")
    checkpoint.module_classes = known.get("classes", {})
    for name in (name for name, shape in tensors.items() if len(shape) > 1):
        layout = weight_layout(checkpoint, name)
        key = name if name in expected else name.rpartition(".")[0]
        assert (layout.output_dim, layout.input_dim) == expected.get(key, (0, 1)), name
        assert bool(layout.reason) != layout.is_usual


GPT2_CONFIG = {"n_head": 4, "n_embd": 32, "model_type": "gpt2"}
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
        (GPT2_CONFIG, "h.0.attn.c_proj.weight", (32, 32), 0, 8, 4),
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
