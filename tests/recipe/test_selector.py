"""Selecting parameters by globs."""

import re
import time
from contextlib import suppress
from fnmatch import fnmatchcase

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui.checkpoint import TensorInfo, open_checkpoint
from prune_gui.errors import RecipeError, StepError
from prune_gui.recipe import Recipe, patterns_for, resolve, select
from prune_gui.recipe.amounts import parse_amounts
from prune_gui.recipe.patterns import match_recipe, most_targeted
from prune_gui.recipe.selector import (
    CONDITION_FIELDS,
    MAX_PATTERN_CHARS,
    Pattern,
    condition_examples,
    condition_words,
    patterns_in,
)
from prune_gui.session import ModuleIndex

MODEL_NAMES = [
    "encoder.layer.0.attention.self.query.weight",
    "encoder.layer.0.attention.output.LayerNorm.weight",
    "encoder.layer.10.output.dense.weight",
    "encoder.layer.10.output.dense.bias",
    "pooler.dense.weight",
]
TENSORS = [
    *(TensorInfo(name, (2, 2), "float32") for name in MODEL_NAMES),
    TensorInfo("embed.weight", (2, 2), "float32", aliases=("head.weight",)),
]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["encoder.layer.*.weight", "!*LayerNorm*"], [MODEL_NAMES[0], MODEL_NAMES[2]]),
        (["pooler.dense.weight"], [MODEL_NAMES[4]]),
        (["!*.weight"], [MODEL_NAMES[3]]),
        (["pooler*", "*.0.*"], [MODEL_NAMES[0], MODEL_NAMES[1], MODEL_NAMES[4]]),
        (["encoder.layer.1?.*.bias"], [MODEL_NAMES[3]]),
        (["nothing"], []),
        (["ENCODER*"], []),
        (["head.weight"], ["embed.weight"]),
        (["embed*", "!head.*"], []),
    ],
)
def test_globs_match_the_whole_name_or_an_alias(patterns, names):
    assert [info.name for info in select(patterns, TENSORS)] == names  # in the order of the file


KINDS = {
    "q.weight": frozenset({"Linear", "Attention"}),
    "q.bias": frozenset({"Linear", "Attention"}),
    "up.weight": frozenset({"Linear"}),
    "emb.weight": frozenset({"Embedding"}),
    "norm.weight": frozenset({"LayerNorm"}),
}
TYPED = [
    TensorInfo("q.weight", (8, 8), "float32"),
    TensorInfo("q.bias", (8,), "float32"),
    TensorInfo("up.weight", (32, 8), "bfloat16"),
    TensorInfo("emb.weight", (1000, 8), "bfloat16"),
    TensorInfo("norm.weight", (8,), "float32"),
]
COUNTS = {"up.weight": (254, 256), "q.weight": (32, 64)}


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["type:Attention"], ["q.weight", "q.bias"]),
        (["type:linear dims>1"], ["q.weight", "up.weight"]),
        (["* type:*Norm", "up.*"], ["up.weight", "norm.weight"]),
        (["!type:Embedding", "!dims:1"], ["q.weight", "up.weight"]),
        (["*.weight", "! dtype:bfloat16 size>=1k"], ["q.weight", "up.weight", "norm.weight"]),
        (["shape:*x8"], ["q.weight", "up.weight", "emb.weight"]),
        (["sparsity>0.9"], ["up.weight"]),
        (["sparsity>=50% sparsity<99%"], ["q.weight"]),
        (["sparsity=0 dims=2"], ["emb.weight"]),
        (["size>0.0079M"], ["emb.weight"]),
    ],
)
def test_conditions_select_by_properties_of_a_parameter(patterns, names):
    assert [info.name for info in select(patterns, TYPED, COUNTS, lambda: KINDS)] == names


NO_NUMBERS = ["_1", "1_", "1__0", "_", "1e", "e5", ".", "1e999", "1e308b"]


@pytest.mark.parametrize(
    "text",
    [
        *("sparsity>", "dims>two", "type>Linear", "shape:", "size<-1"),
        *(f"size>{number}" for number in NO_NUMBERS),
    ],
)
def test_an_invalid_condition_is_refused_by_name(text):
    with pytest.raises(RecipeError, match="is not a condition"):
        select([text], TYPED)
    with pytest.raises(RecipeError, match=r"step 1.*is not a condition"):
        Recipe.from_yaml(f"version: 1\nsteps:\n- {{method: identity, targets: ['{text}']}}")


@pytest.mark.parametrize(
    "text",
    [
        " " * 100_000 + "x",
        "size" + " " * 100_000,
        "size>" + "1" * 100_000 + "x",
        "size>" + "1_" * 50_000 + "x",
        "size>" + "1e" * 50_000,
        ",[" * 50_000,
        "," * 100_000,
        "[" * 100_000,
        "]" * 100_000,
        " !" * 50_000,
        "[a]" * 33_000,
        "type:" * 20_000,
        "*a" * 50_000,
    ],
    ids=lambda text: f"{text[:6]!r}",
)
def test_a_long_text_is_parsed_or_refused_quickly(text):
    began = time.monotonic()
    with suppress(RecipeError):
        for pattern in patterns_in(text):
            Pattern.parse(pattern)
    with suppress(RecipeError):
        Pattern.parse(text)
    with suppress(RecipeError):
        ModuleIndex(TENSORS).matches(text[:MAX_PATTERN_CHARS])  # the longest line in the window
    with suppress(ValueError):
        parse_amounts(text)
    # A few 0.01 s on an idle machine; minutes with a slow algorithm.
    assert time.monotonic() - began < 5


def test_many_stars_and_a_long_name_match_quickly():
    name = "a" * 1_000_000
    long = TensorInfo(name, (2,), "float32")
    began = time.monotonic()
    assert select(["*a" * 400 + "b"], [long]) == []
    assert select([name], [long]) == [long]
    assert time.monotonic() - began < 5


@given(st.text("ab[]!*?^-\\.", max_size=8), st.text("ab[]!*?^-\\.", max_size=4))
def test_globs_match_as_the_shell_does_plain_names_or_not(glob, name):
    found = select([glob], [TensorInfo(name, (2,), "float32")]) if glob[:1] != "!" else []
    assert bool(found) == (glob[:1] != "!" and fnmatchcase(name, glob))


PARTS = st.sampled_from([",", " ", "  ", "!", "[", "]", "a", "*", "size>1", "type:b"])


@given(st.lists(PARTS, max_size=15).map("".join))
def test_a_line_is_split_at_commas_and_before_exclamation_marks_but_not_in_brackets(line):
    parts = re.split(r"(?:,|\s(?=!))(?![^\[]*\])", line)  # the definition; it needs quadratic time
    assert patterns_in(line) == tuple(part.strip() for part in parts if part.strip())


def test_module_types_are_computed_only_if_needed():
    def fail():
        raise AssertionError

    assert len(select(["*.weight dims>1"], TYPED, COUNTS, fail)) == 3


def test_a_condition_on_sparsity_sees_what_earlier_steps_pruned(demo_checkpoint):
    steps = [
        {"method": "l1_unstructured", "targets": ["*conv2*"], "amount": 0.9},
        {"method": "l1_unstructured", "targets": ["type:Conv2d dims>1 sparsity<50%"], "amount": 5},
    ]
    with open_checkpoint(demo_checkpoint) as checkpoint:
        second = resolve(Recipe(steps=steps), checkpoint).outcomes[1]
    assert set(second.pruned) == {"features.conv1.weight", "features.conv3.weight"}


def test_no_step_prunes_protected_parameters(demo_checkpoint):
    step = {"method": "l1_unstructured", "targets": ["*.weight"], "scope": "global"}
    recipe = Recipe(steps=[step], protect=("type:Conv2d", "!*conv1*"))
    with open_checkpoint(demo_checkpoint) as checkpoint:
        done = resolve(Recipe.from_yaml(recipe.to_yaml()), checkpoint).outcomes[0]
        assert {"features.conv1.weight", "classifier.output.weight"} <= set(done.pruned)
        assert "features.conv2.weight" not in done.pruned
        assert "protected" in done.remarks["features.conv2.weight"]
        everything = recipe.model_copy(update={"protect": ("*",)})
        with pytest.raises(RecipeError, match="is protected, like all targets"):
            resolve(everything, checkpoint)
    assert "protect" not in Recipe(steps=[step]).to_yaml()


@pytest.fixture
def checkpoint(on_disk):
    tensors = {"fc.weight": torch.ones(2, 3), "fc.bias": torch.ones(2, dtype=torch.bfloat16)}
    return on_disk(tensors)


def test_completions_name_what_the_checkpoint_has(checkpoint):
    completed = condition_words(checkpoint)
    assert {"type:Linear", "dtype:float32", "dtype:bfloat16", "size>"} <= set(completed)
    assert {text.partition(":")[0].rstrip(">") for text in completed} == set(CONDITION_FIELDS)


def test_every_example_is_a_condition_on_its_field():
    for field in CONDITION_FIELDS.values():
        [condition] = Pattern.parse(field.example).conditions
        assert condition.field is field


def test_examples_of_numbers_leave_out_texts():
    numbers = "dims>1, size>=1M, sparsity>90%"
    assert condition_examples() == f"type:Linear, dtype:bfloat16, shape:768x*, {numbers}"
    assert condition_examples(numbers_only=True) == numbers


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


IRREGULAR = ("encoder.layer.3.output.dense.bias", "encoder.layer.7.output.dense.weight")


@pytest.mark.parametrize(
    ("wanted", "globs"),
    [
        (matrices("encoder"), ("encoder.layer.* dims>1",)),
        (matrices("encoder", "pooler"), ("dims>1", "!embeddings.*")),
        (
            matrices("encoder.layer.1.", "encoder.layer.10.", "embeddings"),
            ("embeddings.word.weight", "encoder.layer.1.* dims>1", "encoder.layer.10.* dims>1"),
        ),
        (
            {t.name for t in TRANSFORMER if "query.weight" in t.name},
            ("encoder.layer.*.query.*", "!*.bias"),
        ),
        ([t.name for t in TRANSFORMER], ("*",)),
        (["pooler.dense.bias"], ("pooler.dense.bias",)),
        (IRREGULAR, IRREGULAR),
        (["embeddings.position_ids"], ()),  # it cannot be pruned
    ],
)
def test_the_globs_of_a_choice_are_those_that_a_person_would_write(wanted, globs):
    assert patterns_for(wanted, TRANSFORMER) == globs


def test_patterns_are_in_the_order_of_the_file():
    wanted = [tensor(f"m{i}.weight", 8, 8) for i in range(40)]
    others = [tensor(f"{name}.weight", 8, 8) for name in "zyxwv"]
    found = patterns_for([t.name for t in wanted], [*wanted, *others, tensor("b", 2)])
    assert found == ("dims>1", *(f"!{name}.*" for name in "zyxwv"))


NAMES = ("a.weight", "a.bias", "b.weight", "b.steps")
PATTERNS = ("a.*", "*.weight", "c.*", "!a.*", "b.steps", "dims>1", "a.* size>100", "!c.*")


def recipe_of(*steps, protect=()):
    entries = [{"method": "l1_unstructured", "amount": 0.5, **step} for step in steps]
    return Recipe.model_validate({"steps": entries, "protect": protect})


def saved(tmp_path):
    tensors = {"a.weight": torch.ones(4, 4), "a.bias": torch.ones(4), "b.weight": torch.ones(4)}
    save_file({**tensors, "b.steps": torch.tensor([3])}, tmp_path / "model.safetensors")
    return open_checkpoint(tmp_path / "model.safetensors")


@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4, unique=True),
    protect=st.lists(st.sampled_from(["a.bias", "b.*"]), max_size=1),
)
def test_matches_are_those_of_resolving(tmp_path_factory, patterns, protect):
    recipe = recipe_of({"targets": patterns}, protect=protect)
    with saved(tmp_path_factory.mktemp("match_recipe")) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
        if one.targets:
            [outcome] = resolve(recipe, checkpoint).outcomes
            assert set(one.targets) == set(outcome.pruned)
            told = {text for text, note in outcome.remarks.items() if "no parameter" in note}
            assert set(one.unmatched) == told
        else:
            with pytest.raises(StepError, match=r"(?i)change the targets"):
                resolve(recipe, checkpoint)


def test_disabled_steps_are_omitted_and_keep_their_numbers(tmp_path):
    recipe = recipe_of({"targets": ["c.*"], "enabled": False}, {"targets": ["c.*", "a.weight"]})
    with saved(tmp_path) as checkpoint:
        [one] = match_recipe(recipe, checkpoint)
    assert (one.number, one.targets, one.unmatched) == (2, ("a.weight",), ("c.*",))


def test_a_condition_on_sparsity_is_assumed_to_hold(tmp_path):
    recipe = recipe_of(
        {"targets": ["a.* sparsity>90%", "c.* sparsity>1%", "sparsity<10% dims>1"]},
        {"targets": ["*.weight", "!sparsity>90%"]},
    )
    with saved(tmp_path) as checkpoint:
        first, second = match_recipe(recipe, checkpoint)
    assert set(first.targets) == {"a.weight", "a.bias"}
    assert first.unmatched == ("c.* sparsity>1%",)
    assert second.targets == ("a.weight", "b.weight")


def test_the_parameter_that_most_steps_target_is_the_first_of_them_in_the_file(tmp_path):
    with saved(tmp_path) as checkpoint:
        first, last = ({"targets": [name]} for name in ("a.weight", "b.weight"))
        assert most_targeted(recipe_of(), checkpoint) is None
        assert most_targeted(recipe_of(last, first), checkpoint) == "a.weight"
        assert most_targeted(recipe_of(last, first, last), checkpoint) == "b.weight"
        off = {**last, "enabled": False}
        assert most_targeted(recipe_of(first, off, off), checkpoint) == "a.weight"
