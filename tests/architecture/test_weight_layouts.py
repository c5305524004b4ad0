"""Which dimensions of weights have output and input channels, and how that is known."""

from __future__ import annotations

import pytest
from fake_checkpoint import FakeCheckpoint

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
