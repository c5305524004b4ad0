"""Globs found for a set of parameters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import TensorInfo
from prune_gui.recipe import patterns_for, select


def tensor(name: str, *shape: int, aliases: tuple[str, ...] = (), dtype: str = "float32"):
    return TensorInfo(name, shape or (2, 2), dtype, aliases=aliases)


def chosen(patterns, tensors):
    if not patterns:
        return []
    return [t.name for t in select(patterns, tensors) if not t.not_prunable]


parts = st.sampled_from(
    ["layer", "0", "1", "10", "weight", "bias", "norm", "a[b]", "*", "!", ",", ""]
)
names = st.lists(parts, min_size=1, max_size=4).map(".".join) | st.text(max_size=3)


@st.composite
def choices(draw):
    every = draw(st.lists(names, unique=True, min_size=1, max_size=12))
    first, tied = every[: len(every) // 2 + 1], every[len(every) // 2 + 1 :]
    tensors = [
        tensor(
            name,
            aliases=(tied[i],) if i < len(tied) else (),
            dtype=draw(st.sampled_from(["float32", "int64"])),
        )
        for i, name in enumerate(first)
    ]
    return draw(st.sets(st.sampled_from(first))), tensors


@given(choices())
def test_the_globs_select_exactly_the_wanted_parameters(choice):
    wanted, tensors = choice
    prunable = [t.name for t in tensors if not t.not_prunable]
    assert chosen(patterns_for(wanted, tensors), tensors) == [n for n in prunable if n in wanted]


TRANSFORMER = [
    tensor("embeddings.word.weight"),
    tensor("embeddings.position_ids", 1, 512, dtype="int64"),
    *(
        tensor(f"encoder.layer.{i}.{name}", *shape)
        for i in range(12)
        for name, shape in {
            "attention.query.weight": (8, 8),
            "attention.query.bias": (8,),
            "output.dense.weight": (8, 8),
            "output.dense.bias": (8,),
            "output.LayerNorm.weight": (8,),
            "output.LayerNorm.bias": (8,),
        }.items()
    ),
    tensor("pooler.dense.weight"),
    tensor("pooler.dense.bias", 2),
]


def matrices(*prefixes: str) -> set[str]:
    return {t.name for t in TRANSFORMER if t.name.startswith(prefixes) and len(t.shape) == 2}


def test_a_module_becomes_a_glob_with_shared_exclusions():
    assert patterns_for(matrices("encoder"), TRANSFORMER) == (
        "encoder.layer.*",
        "!*.bias",
        "!*.LayerNorm.*",
    )


def test_several_modules_become_one_glob_each():
    wanted = matrices("encoder.layer.1.", "encoder.layer.10.", "embeddings")
    assert patterns_for(wanted, TRANSFORMER) == (
        "embeddings.word.weight",
        "encoder.layer.1.*",
        "encoder.layer.10.*",
        "!*.bias",
        "!*.LayerNorm.*",
    )


def test_a_component_of_many_modules_becomes_one_glob():
    wanted = {t.name for t in TRANSFORMER if "query.weight" in t.name}
    assert patterns_for(wanted, TRANSFORMER) == ("encoder.layer.*.query.*", "!*.bias")


def test_the_whole_model_is_a_star():
    assert patterns_for([t.name for t in TRANSFORMER], TRANSFORMER) == ("*",)


def test_one_parameter_is_its_name():
    assert patterns_for(["pooler.dense.bias"], TRANSFORMER) == ("pooler.dense.bias",)


def test_an_irregular_choice_becomes_exact_names():
    wanted = ["encoder.layer.3.output.dense.bias", "encoder.layer.7.output.dense.weight"]
    assert patterns_for(wanted, TRANSFORMER) == tuple(wanted)


def test_parameters_that_cannot_be_pruned_are_ignored():
    assert patterns_for(["embeddings.position_ids"], TRANSFORMER) == ()
