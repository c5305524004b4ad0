"""Blocks and roles are found from the names of well-known networks."""

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.blocks import LOOSE_COLUMNS, sections, short_names

MATRIX = (4, 4)


def of(*names, **options):
    shapes = {name: (4,) if name.endswith("bias") else MATRIX for name in names}
    return sections(shapes, **options)


def in_blocks(pattern, count, *paths):
    return [pattern.format(i) + path for i in range(count) for path in paths]


def roles(section):
    return [f"{role.group} {role.label}".strip() for role in section.roles]


def labels(section):
    return [row.label for row in section.rows]


def patterns(found):
    return [section.title for section in found]


BERT = (
    "attention.output.dense.weight",
    "attention.self.key.weight",
    "attention.self.query.weight",
    "attention.self.value.weight",
    "intermediate.dense.weight",
    "output.dense.weight",
)


def test_blocks_of_bert_are_rows_in_the_order_of_their_numbers_and_projections_are_columns():
    names = sorted(in_blocks("encoder.layer.{}.", 12, *BERT))
    first, layers, last = of("pooler.dense.weight", *names, "embeddings.word_embeddings.weight")
    assert layers.title == "encoder.layer.*"
    assert labels(layers) == [str(number) for number in range(12)]
    assert roles(layers) == [
        "attention q",
        "attention k",
        "attention v",
        "attention o",
        "intermediate up",
        "output down",
    ]
    assert layers.rows[10].names[0] == "encoder.layer.10.attention.self.query.weight"
    assert first.rows[0].captions == ("embeddings.word_embeddings",)
    assert last.rows[0].captions == ("pooler.dense",)


LLAMA = [f"mlp.{r}_proj" for r in ("down", "gate", "up")] + [f"self_attn.{r}_proj" for r in "koqv"]
LLAMA_CPP = ("ffn_down", "ffn_gate", "attn_output", "attn_k", "ffn_up", "attn_v", "attn_q")
T5 = [f"layer.0.SelfAttention.{r}" for r in "qkvo"] + [f"layer.1.FF.w{end}" for end in "io"]
WHISPER = [f"{at}_attn.{r}_proj" for at in ("self", "encoder") for r in "qkv"] + ["fc1", "fc2"]
PATHS_AND_ROLES = {
    "model.layers.{}.": (
        LLAMA,
        [*(f"self_attn {r}" for r in "qkvo"), "mlp gate", "mlp up", "mlp down"],
    ),
    "h.{}.": (
        ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"),
        ["attn qkv", "attn o", "mlp up", "mlp down"],
    ),
    "blk.{}.": (LLAMA_CPP, ["q", "k", "v", "o", "gate", "up", "down"]),
    "encoder.block.{}.": (T5, [*(f"layer.0.SelfAttention {r}" for r in "qkvo"), "layer.1.FF up"]),
    "decoder.layers.{}.": (
        WHISPER,
        [f"{at}_attn {r}" for at in ("self", "encoder") for r in "qkv"] + ["up", "down"],
    ),
}


@pytest.mark.parametrize("pattern", PATHS_AND_ROLES)
def test_projections_are_columns_with_attention_first(pattern):
    paths, expected = PATHS_AND_ROLES[pattern]
    names = in_blocks(pattern, 3, *(f"{path}.weight" for path in paths))
    first, layers = of(*names, "embedding.weight")
    assert (layers.title, len(layers.rows)) == (pattern.format("*").rstrip("."), 3)
    assert roles(layers)[: len(expected)] == expected
    assert first.rows[0].captions == ("embedding",)


def test_the_roles_of_norms_are_where_they_run_whatever_the_order_in_the_file():
    paths = ("mlp.up_proj", "post_attention_layernorm", "self_attn.q_proj", "input_layernorm")
    names = in_blocks("layers.{}.", 2, *(f"{path}.weight" for path in paths))
    expected = ["input_layernorm", "self_attn q", "post_attention_layernorm", "mlp up"]
    for some in (names, sorted(names)):
        (blocks,) = of(*some, vectors=True)
        assert roles(blocks) == expected


def test_encoders_come_before_decoders():
    names = [
        f"{kind}.{i}.fc{j}.weight"
        for kind in ("decoder", "encoder")
        for i in (0, 1)
        for j in (1, 2)
    ]
    assert patterns(of(*names)) == ["encoder.*", "decoder.*"]


def test_attention_of_torch_has_fused_projections():
    paths = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    names = in_blocks("layers.{}.self_attn.", 2, *paths)
    (blocks,) = of(*names, *in_blocks("layers.{}.", 2, "linear1.weight"), vectors=True)
    attention = ["self_attn qkv", "self_attn qkv.bias", "self_attn o", "self_attn o.bias"]
    assert roles(blocks) == [*attention, "up"]


def test_stages_of_resnet_are_one_section_with_gaps():
    names = []
    for stage in (1, 2, 3, 4):
        paths = ("conv1.weight", "conv2.weight")
        names += in_blocks(f"layer{stage}.{{}}.", 2, *paths)
        names += [f"layer{stage}.0.downsample.0.weight"] * (stage > 1)
    first, blocks, last = of("conv1.weight", *names, "fc.weight")
    assert blocks.title == "layer*.*"
    assert labels(blocks) == ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "4.0", "4.1"]
    assert roles(blocks) == ["conv1", "conv2", "downsample 0"]
    assert blocks.rows[0].names[2] is None
    assert (first.rows[0].names, last.rows[0].names) == (("conv1.weight",), ("fc.weight",))


def test_blocks_of_mobilenet_are_rows_although_their_layers_are_numbered_too():
    names = ["features.0.0.weight", "features.1.conv.0.weight", "features.1.conv.3.weight"]
    names += in_blocks("features.{}.", 19, *(f"conv.{i}.weight" for i in (0, 3, 6)))[6:]
    (blocks,) = of(*names)
    assert labels(blocks) == [str(number) for number in range(19)]
    assert roles(blocks) == ["0", "conv 0", "conv 3", "conv 6"]


def test_a_network_without_blocks_has_a_row_per_stage_and_one_for_the_others():
    (crepe,) = of(*(f"conv{i}.weight" for i in range(1, 6)), "classifier.weight")
    assert crepe.title == ""
    assert [row.captions for row in crepe.rows] == [
        ("conv1", "conv2", "conv3", "conv4", "conv5", "classifier")
    ]
    (lstm,) = of("lstm.weight_ih_l0", "lstm.weight_hh_l0", "linear.weight")
    assert labels(lstm) == ["lstm", ""]
    assert lstm.rows[0].captions == ("weight_ih_l0", "weight_hh_l0")
    (vgg,) = of(*(f"features.{3 * i}.weight" for i in range(8)), "classifier.0.weight")
    assert labels(vgg) == ["features", "", ""]
    assert 4 < LOOSE_COLUMNS < 8
    assert [len(row.names) for row in vgg.rows] == [4, 4, 1]


def test_numbered_layers_that_are_no_blocks_are_in_numerical_order():
    names = [f"net.layers.{number}.weight" for number in range(12)]
    (only,) = of("net.input.weight", *sorted(names), "net.output.weight")
    shown = [name for row in only.rows for name in row.names]
    assert [name for name in shown if name in names] == names


def test_a_unet_has_a_section_per_family_of_blocks():
    attention = [
        f"transformer_blocks.0.attn{n}.{r}.weight"
        for n in (1, 2)
        for r in ("to_q", "to_k", "to_v", "to_out.0")
    ]
    names = []
    for level in range(3):
        for block in range(2):
            inside = ("conv1.weight", "conv2.weight", "time_emb_proj.weight")
            names += [f"down_blocks.{level}.resnets.{block}.{path}" for path in inside]
            at = f"down_blocks.{level}.attentions.{block}."
            names += [at + path for path in ("proj_in.weight", *attention, "proj_out.weight")]
    resnets, projections, transformers = of(*names)
    assert resnets.title == "down_blocks.*.resnets.*"
    assert transformers.title == "down_blocks.*.attentions.*.transformer_blocks.*"
    assert roles(transformers)[:4] == ["attn1 q", "attn1 k", "attn1 v", "attn1 o"]
    assert projections.title == "down_blocks.*.attentions.*"
    assert labels(projections) == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]


def test_the_experts_of_a_mixture_are_blocks_of_their_own():
    attention = [f"self_attn.{r}_proj.weight" for r in "qkvo"]
    experts = [f"block_sparse_moe.experts.{e}.w{n}.weight" for e in range(8) for n in (1, 2, 3)]
    found = of(*in_blocks("model.layers.{}.", 2, *attention, *experts))
    assert patterns(found) == ["model.layers.*", "model.layers.*.block_sparse_moe.experts.*"]
    assert len(found[1].rows) == 16
    assert labels(found[1])[:2] == ["0.0", "0.1"]


def test_blocks_may_be_numbered_in_their_names():
    (dense,) = of(
        *(
            f"features.denseblock{b}.denselayer{n}.conv{c}.weight"
            for b in (1, 2)
            for n in range(1, 5)
            for c in (1, 2)
        )
    )
    assert dense.title == "features.denseblock*.denselayer*"
    assert labels(dense)[:2] == ["1.1", "1.2"]


def test_vectors_are_left_out_unless_asked_for_and_do_not_change_the_blocks():
    names = in_blocks("layer.{}.", 2, "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
    (without,) = of(*names)
    (with_vectors,) = of(*names, vectors=True)
    assert roles(without) == ["up", "down"]
    assert roles(with_vectors) == ["up", "up.bias", "down", "down.bias"]
    assert labels(with_vectors) == labels(without)
    assert of("norm.bias") == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["emb.weight", *in_blocks("a.layer.{}.", 2, "attn.q_proj.weight")],
            [".emb", "0.q", "1.q"],
        ),
        (in_blocks("layer{}.0.", 2, "conv1.weight"), ["layer0.0.conv1", "layer1.0.conv1"]),
        (in_blocks("features.{}.", 2, "conv.0.weight"), ["0.conv.0", "1.conv.0"]),
        (in_blocks("h.{}.", 2, "a.norm.weight", "norm.weight", "q.bias"), None),
        (["encoder.0", "encoder.1", "head"], [".encoder.0", ".encoder.1", ".head"]),
    ],
)
def test_short_names_say_the_block_and_the_role(names, expected):
    found = [".".join(one) for one in short_names(names)]
    assert expected is None or found == expected
    assert len(set(found)) == len(names)


components = st.sampled_from(["layer", "0", "1", "12", "conv1", "attn", "q", "", "b_3"])
paths = st.lists(components, min_size=1, max_size=6).map(".".join)


@given(st.lists(paths | st.text(string.printable, max_size=8), unique=True), st.booleans())
def test_every_parameter_is_shown_exactly_once(names, vectors):
    shapes = {name: (3, 3) if index % 3 else (3,) for index, name in enumerate(names)}
    found = sections(shapes, vectors=vectors)
    shown = [n for part in found for row in part.rows for n in row.names if n is not None]
    assert sorted(shown) == sorted(n for n in names if vectors or len(shapes[n]) > 1)
    for part in found:
        for row in part.rows:
            assert any(name is not None for name in row.names)
            assert len(row.names) == (len(part.roles) or len(row.captions))


def test_the_time_is_linear_in_the_number_of_names():
    def seconds(blocks):
        names = in_blocks("encoder.layer.{}.", blocks, *BERT)
        start = time.thread_time()
        of(*names)
        return time.thread_time() - start

    few = min(seconds(100) for _ in range(3))
    assert seconds(2_000) < 60 * few
