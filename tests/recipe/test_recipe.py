"""The file format of recipes."""

import runpy

import pytest
import torch
from applied import applied
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn.utils import prune as torch_prune

from prune_gui import export, load_methods, open_checkpoint, resolve
from prune_gui.errors import RecipeError
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step
from prune_gui.recipe.selector import Pattern

DESIGNED = """
version: 1
start: dense
steps:
  - method: l1_unstructured
    targets: ["encoder.layer.*.weight"]
    scope: global
    amount: 0.5
    amount_of: remaining
  - method: ln_structured
    targets: ["encoder.layer.*.output.dense.weight"]
    amount: 8
    n: inf
    dim: 0
    enabled: true
    importance: scores.safetensors
  - method: random_unstructured
    targets: ["*", "!*.bias"]
    seed: 3
    enabled: false
"""

amounts = st.floats(0, 1) | st.integers(0, 10**9)


def is_pattern(text):
    """Return whether a text is a valid pattern; "shape:", for example, is not."""
    try:
        Pattern.parse(text)
    except RecipeError:
        return False
    return True


pattern = st.text(min_size=1, max_size=9).filter(is_pattern)
patterns = st.lists(pattern, min_size=1, max_size=3)
steps = st.one_of(
    st.fixed_dictionaries(
        {
            "method": st.just("l1_unstructured"),
            "targets": patterns,
            "amount": amounts,
            "scope": st.sampled_from(["local", "global"]),
            "enabled": st.booleans(),
        }
    ),
    st.fixed_dictionaries(
        {
            "method": st.just("ln_structured"),
            "targets": patterns,
            "amount": amounts,
            "n": st.sampled_from([0, 0.5, 2, "inf", "-inf", "fro", "nuc"]),
            "dim": st.integers(-4, 4),
        }
    ),
    st.fixed_dictionaries(
        {"method": st.just("custom_from_mask"), "targets": patterns, "mask": st.text()}
    ),
)


@given(st.lists(steps, max_size=5), st.sampled_from(["dense", "zeros"]))
def test_a_recipe_survives_a_round_trip_through_yaml(flat_steps, start):
    recipe = Recipe(start=start, steps=flat_steps)
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe


def test_the_recipe_of_the_design_document_is_read():
    recipe = Recipe.from_yaml(DESIGNED)
    first, second, third = recipe.steps
    assert first.method == METHODS["l1_unstructured"](amount=0.5, scope="global")
    assert second.method.model_dump()["n"] == "inf"
    assert third.targets == ("*", "!*.bias")
    assert [step.enabled for step in recipe.steps] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2", "line 1"),
        ("just words", "recipe.yaml: not a recipe, which has fields"),
        ("", "recipe.yaml: not a recipe, which has fields"),
        ("version: 2", "version"),
        ("steps: [{method: l2, targets: [a]}]", "step 1.*'l2' is unknown.*prune-gui methods"),
        ("steps: [{method: identity}]", "step 1, targets"),
        (
            "steps: [{method: identity, targets: []}]",
            "step 1, targets: at least 1 item is expected, not 0",
        ),
        (
            "steps: [{method: identity, targets: ['']}]",
            r"step 1, targets: at least 1 character is expected\.$",
        ),
        ("steps:\n" + "- {method: identity, targets: [a]}\n" * 251, "at most 250 .* not 251"),
        ("protect: ['']", "^recipe.yaml: protect: "),
        ("steps: [{method: l1_unstructured, targets: [a], amount: 1.5}]", "step 1, amount.*share"),
        (
            "steps: [{method: l1_unstructured, targets: [a], colour: red}]",
            r"step 1, colour: unknown field\.$",
        ),
        (
            "steps: [{method: l1_unstructured, target: [a], amount: 0.5}]",
            r"step 1, target: unknown field \(did you mean targets\?\)\.$",
        ),
        (
            "steps: [{method: l1_unstructured, targets: [a], amont: 0.5}]",
            r"step 1, amont: unknown field \(did you mean amount\?\)\.$",
        ),
        (
            "steps: [{method: ln_structured, targets: [a], dim: outptu}]",
            r"^recipe.yaml: step 1, dim: a number, 'output' or 'input' is expected \(did you mean",
        ),
        (
            "steps: [{method: ln_structured, targets: [a], n: frobenius}]",
            r"^recipe.yaml: step 1, n: a number, 'fro' or 'nuc' is expected\.$",
        ),
        (
            "steps: [{method: coupled, targets: [a], space: channls}]",
            r"step 1, space: .*'vision_heads' is expected \(did you mean channels\?\)\.$",
        ),
        (
            "steps: [{method: l1_unstructered, targets: [a]}]",
            r"is unknown \(did you mean l1_unstructured\?\); prune-gui methods",
        ),
        ("step: []", r"^recipe.yaml: step: unknown field \(did you mean steps\?\)\.$"),
        ("steps: [{method: l1_unstructured, targets: [a], scope: everywhere}]", "step 1, scope"),
        ("steps: [3]", "step 1"),
        ("folder: /tmp", "folder: unknown field"),
        ("a: &a [*a]", "recipe.yaml"),
        ("!!python/object/apply:os.system ['true']", "recipe.yaml"),
        ("[" * 5000, "recipe.yaml"),
    ],
)
def test_an_invalid_recipe_is_refused_with_one_line_and_a_position(text, says):
    with pytest.raises(RecipeError, match=says) as caught:
        Recipe.from_yaml(text, source="recipe.yaml")
    assert "\n" not in str(caught.value)


def test_shares_may_be_in_percent():
    fields = "amount: 50%, max_sparsity: 99.9 %, amounts: {a: 100%, b: 8}"
    recipe = Recipe.from_yaml(f"steps: [{{method: l1_unstructured, targets: [a], {fields}}}]")
    method = dict(recipe.steps[0].method)
    assert (method["amount"], method["max_sparsity"]) == (0.5, 0.999)
    assert repr(dict(method["amounts"])) == "{'a': 1.0, 'b': 8}"
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        ("x", "amount: a number is expected."),
        ("-0.5", "amount: a share must lie between"),
        ("150%", "amount: a share must lie between"),
        ("half%", "amount: a number is expected."),
    ],
)
def test_alternative_types_of_a_value_are_one_problem(amount, says):
    with pytest.raises(RecipeError) as caught:
        Recipe.from_yaml(f"steps: [{{method: l1_unstructured, targets: [a], amount: {amount}}}]")
    assert str(caught.value).startswith(f"The recipe: step 1, {says}")
    assert str(caught.value).count("amount") == 1


def test_a_missing_recipe_is_named(tmp_path):
    with pytest.raises(RecipeError, match=r"nowhere\.yaml"):
        Recipe.load(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="UTF-8"):
        Recipe.load(tmp_path / "bytes.yaml")


def test_too_many_steps_are_refused():
    step = Step(method=METHODS["identity"](), targets=("*",))
    with pytest.raises(RecipeError, match="at most 250"):
        Recipe().with_steps((step,) * 251)


def test_a_recipe_for_another_folder_has_absolute_paths(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(DESIGNED)
    recipe = Recipe.load(path)
    assert recipe.steps[1].method.importance == str(tmp_path / "scores.safetensors")
    assert "importance: scores.safetensors" in recipe.lying_in(tmp_path).to_yaml()
    elsewhere = recipe.lying_in(tmp_path / "other").to_yaml()
    assert f"importance: {tmp_path / 'scores.safetensors'}" in elsewhere


HERE = "classifier.hidden.weight"


@pytest.fixture
def method(plugin_file, nearest_mean):
    [loaded] = load_methods(nearest_mean)
    return loaded


def test_the_example_alone_and_after_l1_prunes_what_torch_prunes_with_its_class(
    method, demo_checkpoint, tmp_path, nearest_mean
):
    live_class = runpy.run_path(str(nearest_mean))["NearestMean"]
    for earlier in ([], [{"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.3}]):
        own = {"method": "nearest_mean", "targets": ["*.weight"], "amount": 0.5}
        with applied(demo_checkpoint, Recipe(steps=[*earlier, own])) as resolution:
            layer = torch.nn.Linear(1024, 64, bias=False)
            layer.weight.data.copy_(resolution.checkpoint.read(HERE))
            for step in earlier:
                torch_prune.l1_unstructured(layer, "weight", step["amount"])
            live_class.apply(layer, "weight", 0.5)
            assert torch.equal(resolution.mask(HERE), layer.weight_mask.bool())
            out = tmp_path / f"{len(earlier)}.safetensors"
            export(resolution, out)
        assert torch.equal(
            load_file(out)[HERE], torch.where(layer.weight_mask.bool(), layer.weight, 0)
        )


def test_the_example_has_a_recipe(method, demo_checkpoint, nearest_mean):
    recipe = Recipe.load(nearest_mean.with_suffix(".yaml"))
    assert recipe.renewed() == recipe
    with open_checkpoint(demo_checkpoint) as checkpoint:
        pruned, total = resolve(recipe, checkpoint).total
    assert 0.49 < pruned / total < 0.5


def test_the_explanation_of_an_element_names_the_plugin_step(method, demo_checkpoint):
    recipe = Recipe(steps=[{"method": "nearest_mean", "targets": [HERE], "amount": 1.0}])
    with open_checkpoint(demo_checkpoint) as checkpoint:
        explained = resolve(recipe, checkpoint).explain(HERE, (3, 4))
    assert explained.pruned_by == 1
    assert explained.element_ranks[1].score is None


def test_a_recipe_never_runs_code_and_states_how_to_load_its_method(plugin_file, tmp_path):
    plugin_file("open('it ran', 'w')", "mine.py")
    names = ("mine", "mine.py", str(tmp_path / "mine.py"), "__import__('os')", "tests", "a b")
    for name in names:
        with pytest.raises(RecipeError, match=r"is unknown.*--methods FILE.*Prune > Load") as error:
            Recipe.from_yaml(f"steps: [{{method: {name!r}, targets: [a]}}]", folder=tmp_path)
        assert "\n" not in str(error.value)
    (tmp_path / "mine.yaml").write_text("steps: [{method: mine, targets: [a]}]")
    with pytest.raises(RecipeError, match="mine"):
        Recipe.load(tmp_path / "mine.yaml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.yaml"]
