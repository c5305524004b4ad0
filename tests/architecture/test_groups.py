"""Coupled groups of small hand-made checkpoints."""

import gc
import time
import weakref
from collections import Counter
from contextlib import suppress

import pytest
from fake_checkpoint import FakeCheckpoint, blocks
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.groups import analysis, coupled_groups, spaces
from prune_gui.architecture.tables import own_tables
from prune_gui.errors import RecipeError
from prune_gui.pruning.layouts import Member
from prune_gui.resources import resource

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM = 8, 12, 4, 2, 3
LLAMA = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
}
ATTENTION = {
    "self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
    "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
}
FFN = {
    "mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN),
    "mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, INTERMEDIATE),
}
OWN_TABLE = """
family: Own
stacks: [h]
signature: [up.weight]
spaces:
  ffn:
    title: neurons
    members: [{name: up.weight}, {name: down.weight, dim: 1, role: consumes}]
"""


@pytest.mark.parametrize("prefix", ["layers", "model.layers", "module.model.layers"])
def test_neurons_are_rows_and_columns_below_any_prefix(checkpoint_of, prefix):
    checkpoint = checkpoint_of(LLAMA, blocks(2, ATTENTION | FFN, prefix))
    first, second = coupled_groups(checkpoint, "ffn")
    assert (first.label, second.label) == (f"{prefix}.0", f"{prefix}.1")
    assert first.size == INTERMEDIATE
    assert first.members == (
        Member(f"{prefix}.0.mlp.gate_proj.weight", 0),
        Member(f"{prefix}.0.mlp.up_proj.weight", 0),
        Member(f"{prefix}.0.mlp.down_proj.weight", 1, role="consumes"),
    )


def test_a_key_value_head_has_its_query_heads(checkpoint_of):
    checkpoint = checkpoint_of(LLAMA, blocks(1, ATTENTION | FFN))
    (group,) = coupled_groups(checkpoint, "kv_groups")
    widths = {member.name.split(".")[-2]: member.width for member in group.members}
    assert group.size == KV_HEADS
    assert widths == {"q_proj": 6, "k_proj": 3, "v_proj": 3, "o_proj": 6}


def test_parts_of_a_fused_tensor_are_members(checkpoint_of):
    fused = {
        "self_attn.qkv_proj.weight": ((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
    }
    checkpoint = checkpoint_of(LLAMA | {"model_type": "phi3"}, blocks(1, fused))
    (group,) = coupled_groups(checkpoint, "kv_groups")
    assert [(m.dim, m.offset, m.width) for m in group.members] == [
        (0, 0, 6), (0, 12, 3), (0, 18, 3), (1, 0, 6),
    ]  # fmt: skip


def test_interleaved_columns_belong_to_one_neuron(checkpoint_of):
    experts = {
        "mlp.router.weight": (4, HIDDEN),
        "mlp.router.bias": (4,),
        "mlp.experts.gate_up_proj": (4, HIDDEN, 10),
        "mlp.experts.gate_up_proj_bias": (4, 10),
        "mlp.experts.down_proj": (4, 5, HIDDEN),
        "mlp.experts.down_proj_bias": (4, HIDDEN),
    }
    checkpoint = checkpoint_of(LLAMA | {"model_type": "gpt_oss"}, blocks(1, ATTENTION | experts))
    (neurons,) = coupled_groups(checkpoint, "expert_ffn")
    assert neurons.size == 5
    assert [(m.dim, m.width) for m in neurons.members] == [(2, 2), (1, 2), (1, 1)]
    (group,) = coupled_groups(checkpoint, "experts")
    assert group.size == 4
    assert {(m.dim, m.width) for m in group.members} == {(0, 1)}


def moe_block(expert_count, routed=None):
    experts = {
        f"mlp.experts.{i}.{part}_proj.weight": (5, HIDDEN) if part != "down" else (HIDDEN, 5)
        for i in range(expert_count)
        for part in ("gate", "up", "down")
    }
    return {"mlp.gate.weight": (routed or expert_count, HIDDEN), **experts}


def test_dense_blocks_have_no_experts_and_blocks_of_experts_no_neurons(checkpoint_of):
    shapes = blocks(1, ATTENTION | FFN) | {
        f"model.layers.{i}.{name}": shape
        for i in (2, 10)
        for name, shape in (ATTENTION | moe_block(11)).items()
    }
    checkpoint = checkpoint_of(LLAMA | {"model_type": "qwen3_moe"}, shapes)
    assert [g.label for g in coupled_groups(checkpoint, "ffn")] == ["model.layers.0"]
    groups = coupled_groups(checkpoint, "experts")
    assert [group.label for group in groups] == ["model.layers.2", "model.layers.10"]
    router, *whole = groups[0].members
    assert router == Member("model.layers.2.mlp.gate.weight", 0)
    assert [member.offset for member in whole] == [i for i in range(11) for _ in range(3)]
    assert all(m.name.split(".")[m.number_at] == str(m.offset) for m in whole)
    per_expert = coupled_groups(checkpoint, "expert_ffn")
    assert len(per_expert) == 22
    assert per_expert[10].label == "model.layers.2.mlp.experts.10"
    (layers,) = coupled_groups(checkpoint, "layers")
    assert layers.size == 3
    assert {m.name.split(".")[m.number_at] for m in layers.members if m.offset == 2} == {"10"}
    assert {member.name for member in layers.members} == set(checkpoint.tensors)


def test_experts_without_tensors_are_an_error(checkpoint_of):
    shapes = blocks(1, ATTENTION | moe_block(3, routed=4))
    checkpoint = checkpoint_of(LLAMA | {"model_type": "qwen3_moe"}, shapes)
    with pytest.raises(RecipeError, match=r"model\.layers\.0 lacks tensors of some of its 4 units"):
        coupled_groups(checkpoint, "experts")


def test_blocks_that_lack_a_member_have_no_group(checkpoint_of):
    shapes = blocks(2, ATTENTION | FFN)
    del shapes["model.layers.0.mlp.down_proj.weight"]
    checkpoint = checkpoint_of(LLAMA, shapes)
    assert [group.label for group in coupled_groups(checkpoint, "ffn")] == ["model.layers.1"]


@pytest.mark.parametrize(
    "lost",
    [
        ["mlp.experts.gate_up_proj"],
        ["mlp.experts.down_proj"],
        ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        ["mlp.gate.weight"],
    ],
)
def test_experts_need_all_tensors_of_the_form_they_are_stored_in(checkpoint_of, lost):
    experts = {
        "mlp.gate.weight": (3, HIDDEN),
        "mlp.experts.gate_up_proj": (3, 10, HIDDEN),
        "mlp.experts.down_proj": (3, HIDDEN, 5),
    }
    config = LLAMA | {"model_type": "qwen3_moe"}
    whole = checkpoint_of(config, blocks(1, ATTENTION | experts))
    assert [group.size for group in coupled_groups(whole, "experts")] == [3]
    rest = {name: shape for name, shape in experts.items() if name not in lost}
    assert "experts" not in spaces(checkpoint_of(config, blocks(1, ATTENTION | rest)))


def test_a_shared_expert_is_not_pruned_without_the_others(checkpoint_of):
    shapes = {
        "self_attn.kv_b_proj.weight": (4, 4),
        "self_attn.o_proj.weight": (4, 4),
        "mlp.shared_experts.gate_proj.weight": (10, HIDDEN),
        "mlp.shared_experts.up_proj.weight": (10, HIDDEN),
        "mlp.shared_experts.down_proj.weight": (HIDDEN, 10),
        "mlp.experts.gate_up_proj": (3, 10, HIDDEN),
        "mlp.experts.down_proj": (3, HIDDEN, 5),
    }
    config = {"model_type": "deepseek_v3", "n_shared_experts": 2}
    (group,) = coupled_groups(checkpoint_of(config, blocks(1, shapes)), "expert_ffn")
    assert group.size == 5
    assert sorted(member.width for member in group.members) == [1, 1, 1, 2, 2, 2]
    del shapes["mlp.experts.down_proj"]
    assert "expert_ffn" not in spaces(checkpoint_of(config, blocks(1, shapes)))


def test_other_modules_with_the_same_path_are_no_blocks(checkpoint_of):
    vision = blocks(2, {"self_attn.q_proj.weight": (8, 8), "fc1.weight": (8, 8)}, "vision.layers")
    config = {"model_type": "llava", "text_config": LLAMA}
    checkpoint = checkpoint_of(config, vision | blocks(2, ATTENTION | FFN))
    assert checkpoint.model_types == ("llava", "llama")
    for space in spaces(checkpoint):
        for group in coupled_groups(checkpoint, space):
            assert group.label.startswith("model.layers")


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("self_attn.q_proj.weight", (HEADS * HEAD_DIM + 1, HIDDEN)),
        ("self_attn.v_proj.weight", (2 * KV_HEADS * HEAD_DIM, HIDDEN)),
        ("self_attn.o_proj.weight", (HIDDEN,)),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(checkpoint_of, name, shape):
    checkpoint = checkpoint_of(LLAMA, blocks(1, ATTENTION | FFN | {name: shape}))
    assert "kv_groups" in spaces(checkpoint)
    with pytest.raises(RecipeError) as raised:
        coupled_groups(checkpoint, "kv_groups")
    assert repr(f"model.layers.0.{name}") in str(raised.value)
    assert str(list(shape)) in str(raised.value)


def test_heads_that_do_not_divide_the_channels_are_an_error(checkpoint_of):
    names = ["self.query", "self.key", "self.value", "output.dense"]
    shapes = {f"attention.{name}.weight": (9, 9) for name in names}
    shapes |= {"intermediate.dense.weight": (9, 9), "output.dense.weight": (9, 9)}
    config = {"model_type": "bert", "num_attention_heads": 2}
    checkpoint = checkpoint_of(config, blocks(1, shapes, "bert.encoder.layer"))
    assert len(coupled_groups(checkpoint, "ffn")) == 1
    with pytest.raises(RecipeError, match=r"query\.weight' of shape \[9, 9\] does not fit"):
        coupled_groups(checkpoint, "heads")


def test_heads_need_the_counts_of_the_config(checkpoint_of):
    shapes = blocks(1, ATTENTION | FFN)
    assert spaces(checkpoint_of({"model_type": "llama"}, shapes)).keys() == {"ffn", "layers"}
    assert spaces(checkpoint_of(None, shapes)).keys() == {"ffn", "layers"}
    unknown = checkpoint_of(LLAMA | {"head_dim": 0, "hidden_size": 9}, shapes)
    assert "kv_groups" not in spaces(unknown)


def test_norms_over_all_heads_leave_no_key_value_groups(checkpoint_of):
    norms = {"self_attn.q_norm.weight": (HEADS * HEAD_DIM,), "self_attn.k_norm.weight": (6,)}
    own = {"self_attn.q_norm.weight": (HEAD_DIM,), "self_attn.k_norm.weight": (HEAD_DIM,)}
    assert "kv_groups" not in spaces(checkpoint_of(LLAMA, blocks(1, ATTENTION | FFN | norms)))
    checkpoint = checkpoint_of(LLAMA, blocks(1, ATTENTION | FFN | own))
    (group,) = coupled_groups(checkpoint, "kv_groups")
    assert not any("norm" in member.name for member in group.members)


NEW_LLAMA = LLAMA | {"model_type": "newllama", "intermediate_size": 5}
NEURONS = {name: tuple(5 if n == INTERMEDIATE else n for n in shape) for name, shape in FFN.items()}


def test_single_channels_of_an_unknown_type_are_loadable_if_the_config_counts_them(checkpoint_of):
    shapes = blocks(1, ATTENTION | NEURONS)
    checkpoint = checkpoint_of(NEW_LLAMA, shapes)
    assert analysis(checkpoint).table.family == "Llama"
    assert spaces(checkpoint)["ffn"].loadable
    assert not spaces(checkpoint)["kv_groups"].loadable
    table = resource("architectures") / "llama.yaml"
    assert spaces(checkpoint, table)["kv_groups"].loadable
    uncounted = {key: NEW_LLAMA[key] for key in NEW_LLAMA if key != "intermediate_size"}
    assert not spaces(checkpoint_of(uncounted, shapes))["ffn"].loadable
    assert spaces(checkpoint_of(LLAMA, shapes))["ffn"].loadable


@pytest.mark.parametrize("name", ["model.layers.0.mlp.norm.weight", "head.fc1.weight"])
def test_channels_that_another_tensor_of_an_unknown_type_may_have_are_not_loadable(
    checkpoint_of, name
):
    shapes = blocks(1, ATTENTION | NEURONS) | {name: (5,)}
    checkpoint = checkpoint_of(LLAMA | {"model_type": "new", "intermediate_size": 5}, shapes)
    assert not spaces(checkpoint)["ffn"].loadable


def test_blocks_of_an_unknown_type_are_loadable_if_the_user_names_the_table(checkpoint_of):
    config = LLAMA | {"num_hidden_layers": 2, "model_type": "newllama"}
    checkpoint = checkpoint_of(config, blocks(2, ATTENTION | FFN))
    assert not spaces(checkpoint)["layers"].loadable
    assert spaces(checkpoint, resource("architectures") / "llama.yaml")["layers"].loadable
    known = checkpoint_of(LLAMA | {"num_hidden_layers": 2}, blocks(2, ATTENTION | FFN))
    assert spaces(known)["layers"].loadable


@pytest.mark.parametrize(
    ("config", "model_types"),
    [
        ({"model_type": "bert"}, ("bert",)),
        ({"model_type": "llava", "text_config": {"model_type": "qwen2"}}, ("llava", "qwen2")),
        ({"model_type": "llava", "text_config": {}}, ("llava",)),
        ({"model_type": "llava", "text_config": None}, ("llava",)),
        ({"model_type": ["a", "b"]}, ("a",)),
        ({"model_type": 3}, ()),
        ({"model_type": "a b"}, ()),
        ({}, ()),
        (None, ()),
    ],
)
def test_the_types_of_the_model_are_its_own_and_that_of_the_text_model(
    checkpoint_of, config, model_types
):
    assert checkpoint_of(config, {"weight": (2, 2)}).model_types == model_types


def test_the_counts_of_two_models_in_a_file_are_told_apart(checkpoint_of):
    block = {f"self_attn.{name}_proj.weight": (12, 12) for name in ("q", "k", "v", "out")}
    block |= {"mlp.fc1.weight": (10, 12), "mlp.fc2.weight": (12, 10)}
    shapes = blocks(1, block, "text_model.encoder.layers")
    shapes |= blocks(2, block, "vision_model.encoder.layers")
    models = {
        "text_config": {"num_attention_heads": 3},
        "vision_config": {"num_attention_heads": 4},
    }
    checkpoint = checkpoint_of({"model_type": "clip", **models}, shapes)
    assert [group.size for group in coupled_groups(checkpoint, "heads")] == [3]
    assert [group.size for group in coupled_groups(checkpoint, "vision_heads")] == [4, 4]


def test_blocks_of_an_image_model_are_none_of_a_text_model_with_the_same_names(checkpoint_of):
    shapes = blocks(2, ATTENTION | FFN, "vision_tower.layers") | blocks(1, ATTENTION | FFN)
    checkpoint = checkpoint_of({"model_type": "llava", "text_config": LLAMA}, shapes)
    assert [group.label for group in coupled_groups(checkpoint, "ffn")] == ["model.layers.0"]
    alone = blocks(2, ATTENTION | FFN, "vision_tower.layers")
    assert len(coupled_groups(checkpoint_of(LLAMA, alone), "ffn")) == 2


def test_tied_tensors_have_the_name_of_the_parameter(checkpoint_of):
    shapes = blocks(1, ATTENTION | FFN)
    alias = "model.layers.0.mlp.up_proj.weight"
    del shapes[alias]
    checkpoint = checkpoint_of(LLAMA, shapes, {alias: "model.layers.0.mlp.gate_proj.weight"})
    (group,) = coupled_groups(checkpoint, "ffn")
    assert {member.name for member in group.members} <= set(checkpoint.tensors)
    assert len(group.members) == 2


def test_blocks_that_share_a_tensor_cannot_be_removed(checkpoint_of):
    shapes = blocks(2, ATTENTION | FFN)
    second = "model.layers.1.mlp.up_proj.weight"
    del shapes[second]
    checkpoint = checkpoint_of(LLAMA, shapes, {second: "model.layers.0.mlp.up_proj.weight"})
    with pytest.raises(RecipeError, match="is shared by several blocks"):
        coupled_groups(checkpoint, "layers")


def test_heads_across_blocks_are_one_group_and_the_first_bias_stays(checkpoint_of):
    attention = {f"layer.0.SelfAttention.{name}.weight": (6, 6) for name in "qkvo"}
    shapes = blocks(2, attention, "encoder.block")
    bias = "layer.0.SelfAttention.relative_attention_bias.weight"
    shapes[f"encoder.block.0.{bias}"] = (32, 3)
    checkpoint = checkpoint_of({"model_type": "t5", "num_heads": 3}, shapes)
    (heads,) = coupled_groups(checkpoint, "heads")
    assert (heads.label, heads.size, len(heads.members)) == ("encoder.block", 3, 9)
    assert Member(f"encoder.block.0.{bias}", 1, role="bias") in heads.members
    (layers,) = coupled_groups(checkpoint, "encoder_layers")
    assert not any(bias in member.name for member in layers.members)
    assert "decoder_layers" not in spaces(checkpoint)


def test_a_table_of_the_user_is_used_and_read_again_after_a_change(checkpoint_of, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN_TABLE)
    shapes = blocks(2, {"up.weight": (5, 3), "down.weight": (3, 5)}, "net.h")
    checkpoint = checkpoint_of(None, shapes)
    assert analysis(checkpoint).table is None
    with pytest.raises(RecipeError, match="the architecture of the network is not known"):
        coupled_groups(checkpoint, "ffn")
    groups = coupled_groups(checkpoint, "ffn", path)
    assert [(group.label, group.size) for group in groups] == [("net.h.0", 5), ("net.h.1", 5)]
    path.write_text(OWN_TABLE.replace("stacks: [h]", "stacks: [blocks]"))
    assert spaces(checkpoint, path) == {}
    path.unlink()
    with pytest.raises(RecipeError, match=r"own\.yaml: the table cannot be read"):
        spaces(checkpoint, path)


def test_a_space_that_is_missing_is_named_with_those_that_exist(checkpoint_of):
    checkpoint = checkpoint_of(LLAMA, blocks(1, ATTENTION | FFN))
    with pytest.raises(RecipeError, match=r"'experts'.* ffn, kv_groups\."):
        coupled_groups(checkpoint, "experts")


def test_the_groups_of_a_checkpoint_are_found_once_and_not_kept_after_it():
    checkpoint = FakeCheckpoint("llama", LLAMA, blocks(1, ATTENTION | FFN))
    assert analysis(checkpoint) is analysis(checkpoint)
    assert coupled_groups(checkpoint, "ffn")[0] is coupled_groups(checkpoint, "ffn")[0]
    reference = weakref.ref(checkpoint)
    del checkpoint
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("model_type", ["qwen3_moe", ""])
@pytest.mark.slow
def test_a_hundred_thousand_tensors_take_linear_time(model_type):
    checkpoint = FakeCheckpoint(model_type, LLAMA, blocks(60, ATTENTION | moe_block(555)))
    assert len(checkpoint.tensors) > 100_000
    started = time.process_time()
    assert len(coupled_groups(checkpoint, "experts")) == 60
    assert time.process_time() - started < 8  # about 1 s; quadratic time takes minutes


ANY_NAMES = sorted(
    {
        f"{stack}.{block}.{rest}"
        for table in own_tables()
        for stack in table.stacks
        for block in (0, 3)
        for rest in [*table.signature]
        + [
            rule.name.replace("{unit}", unit).replace("*", "1")
            for space in table.spaces.values()
            for rule in space.members
            for unit in ("0", "1")
        ]
    }
)
ANY_KEYS = sorted(
    {
        word
        for table in own_tables()
        for texts in table.counts.values()
        for text in texts
        for word in text.split()
        if word.isidentifier()
    }
)
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(
    st.sampled_from(own_tables()),
    st.integers(1, 3),
    st.dictionaries(st.sampled_from(ANY_KEYS), st.integers(1, 5) | st.just(1 << 40), max_size=3),
    st.dictionaries(st.sampled_from(ANY_NAMES), shapes, max_size=3),
    shapes,
    st.data(),
)
def test_any_shapes_give_groups_that_fit_or_an_error(table, number, config, others, shape, data):
    own = [name for name in ANY_NAMES if name.startswith(f"{table.stacks[0]}.0.")]
    tensors = {name: data.draw(st.just(shape) | shapes) for name in own} | others
    checkpoint = FakeCheckpoint(
        data.draw(st.sampled_from([*table.model_types, ""])), config, tensors
    )
    for space in spaces(checkpoint):
        with suppress(RecipeError):
            for group in coupled_groups(checkpoint, space):
                assert group.size > 0
                covered = Counter()
                for member in group.members:
                    assert member.width > 0
                    assert member.dim is not None or member.offset < group.size
                    covered[member.name, member.dim] += group.size * member.width
                for (name, dim), length in covered.items():
                    assert dim is None or tensors[name][dim] == length


sizes = st.integers(1, 5)


@given(sizes, sizes, sizes, sizes)
def test_the_units_of_a_group_divide_its_channels(kv_heads, repeats, head_dim, layers):
    heads = kv_heads * repeats
    shapes = {
        "self_attn.q_proj.weight": (heads * head_dim, 2),
        "self_attn.k_proj.weight": (kv_heads * head_dim, 2),
        "self_attn.v_proj.weight": (kv_heads * head_dim, 2),
        "self_attn.o_proj.weight": (2, heads * head_dim),
    }
    config = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim}
    config["hidden_size"] = 2
    checkpoint = FakeCheckpoint("llama", config, blocks(layers, shapes))
    groups = coupled_groups(checkpoint, "kv_groups")
    assert len(groups) == layers
    for group in groups:
        for member in group.members:
            length = checkpoint.tensors[member.name].shape[member.dim]
            assert member.offset == 0
            assert member.width * group.size == length
