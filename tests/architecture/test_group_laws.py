"""Laws of coupled groups, for tensors of any shapes."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from fake_checkpoint import FakeCheckpoint, blocks
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.tables import own_tables
from prune_gui.errors import RecipeError

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
