"""Spaces of the whole network: what is a group, and what is refused."""

from __future__ import annotations

import time

import pytest
from fake_checkpoint import FakeCheckpoint
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.matching import NameMatcher
from prune_gui.errors import RecipeError
from prune_gui.recipe.recipe import Step
from prune_gui.recipe.step_targets import step_targets

HIDDEN = 8
CONFIG = {"model_type": "llama", "hidden_size": HIDDEN, "num_attention_heads": 4, "head_dim": 3}
BLOCK = {
    "input_layernorm.weight": (HIDDEN,),
    "self_attn.q_proj.weight": (12, HIDDEN),
    "self_attn.q_proj.bias": (12,),
    "self_attn.k_proj.weight": (12, HIDDEN),
    "self_attn.v_proj.weight": (12, HIDDEN),
    "self_attn.o_proj.weight": (HIDDEN, 12),
    "post_attention_layernorm.weight": (HIDDEN,),
    "mlp.gate_proj.weight": (HIDDEN, HIDDEN),
    "mlp.gate_proj.bias": (HIDDEN,),
    "mlp.up_proj.weight": (HIDDEN, HIDDEN),
    "mlp.down_proj.weight": (HIDDEN, HIDDEN),
}
TOP = {
    "model.embed_tokens.weight": (20, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    "lm_head.weight": (20, HIDDEN),
}


def llama(blocks=2):
    return TOP | {
        f"model.layers.{number}.{name}": shape
        for number in range(blocks)
        for name, shape in BLOCK.items()
    }


@pytest.fixture
def llama_with(checkpoint_of):
    def open_with(others=(), without=(), integers=()):
        shapes = {name: shape for name, shape in llama().items() if name not in without}
        return checkpoint_of(CONFIG, shapes | dict(others), integers=integers)

    return open_with


def test_hidden_channels_are_one_group_of_the_whole_network(llama_with):
    (group,) = coupled_groups(llama_with(), "hidden")
    assert (group.size, group.label) == (HIDDEN, "*")
    dims = {}
    for member in group.members:
        dims.setdefault(member.name, []).append(member.dim)
    for name, shape in llama().items():
        others = {"q_proj.bias", "gate_proj.bias"}  # of the lengths of other units
        if not any(name.endswith(other) for other in others):
            square = {"gate_proj": 1, "up_proj": 1, "down_proj": 0}
            own = [dim for key, dim in square.items() if key in name]
            assert dims.pop(name) == (own or [shape.index(HIDDEN)])
    assert not dims


@pytest.mark.parametrize(
    "shape", [(HIDDEN,), (3, HIDDEN), (HIDDEN, 3), (2, HIDDEN, 5)], ids=lambda shape: str(shape)
)
def test_an_unknown_tensor_of_that_length_is_named_and_other_units_remain(llama_with, shape):
    checkpoint = llama_with({"model.layers.1.adapter.weight": shape})
    assert "hidden" not in spaces(checkpoint)
    assert "ffn" in spaces(checkpoint)
    with pytest.raises(RecipeError, match=r"model\.layers\.1\.adapter\.weight of shape") as raised:
        coupled_groups(checkpoint, "hidden")
    assert "\n" not in str(raised.value)
    step = Step.model_validate({"method": "coupled", "space": "hidden", "targets": ["*"]})
    with pytest.raises(RecipeError, match="adapter"):
        step_targets(step, checkpoint, {}, ())


def test_an_unknown_tensor_of_other_lengths_or_of_integers_does_not_matter(llama_with):
    assert "hidden" in spaces(llama_with({"adapter.weight": (3, HIDDEN - 1)}))
    assert "hidden" in spaces(llama_with({"position_ids": (1, HIDDEN)}, integers=["position_ids"]))


def test_members_of_different_lengths_are_named(llama_with):
    checkpoint = llama_with({"vision.layers.0.self_attn.q_proj.weight": (6, 6)})
    assert "hidden" not in spaces(checkpoint)
    with pytest.raises(RecipeError, match=r"vision\.layers.* has 6 hidden channels, but .* has 8"):
        coupled_groups(checkpoint, "hidden")


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.norm.weight"])
def test_a_network_without_a_required_member_has_no_group(llama_with, name):
    assert "hidden" not in spaces(llama_with(without={name}))


def test_dead_units_leave_hidden_channels_alone(llama_with):
    step = Step.model_validate({"method": "dead_units", "targets": ["*"]})
    groups = step_targets(step, llama_with(), {}, ()).groups
    assert {group.space for group in groups} == {"ffn", "kv_groups"}


names = st.lists(st.sampled_from(["a", "b", "3", "norm", "weight"]), min_size=1, max_size=5)


@given(names)
def test_a_pattern_matches_the_end_of_a_name(components):
    patterns = ["weight", "norm.weight", "a.*.weight", "b*.3.norm.weight"]
    expected = []
    for index, pattern in enumerate(patterns):
        wanted = pattern.split(".")
        end = components[-len(wanted) :]
        if len(end) == len(wanted) and all(
            own == "*" or found == own or (own == "b*" and found.startswith("b"))
            for own, found in zip(wanted, end, strict=True)
        ):
            expected.append(index)
    assert list(NameMatcher(patterns)(".".join(components))) == expected


@pytest.mark.slow
def test_a_hundred_thousand_tensors_take_linear_time():
    checkpoint = FakeCheckpoint("llama", CONFIG, llama(blocks=10_000))
    assert len(checkpoint.tensors) > 100_000
    started = time.process_time()
    (group,) = coupled_groups(checkpoint, "hidden")
    assert time.process_time() - started < 8  # about 1 s; quadratic time takes minutes
    assert len(group.members) == 90_003
