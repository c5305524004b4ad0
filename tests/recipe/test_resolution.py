"""Resolved recipes, compared with torch pruning modules of the same weights."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from applied import CancelAfter, applied
from foreign import foreign, untranslated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, CheckpointError, RecipeError, StepError
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.predicates import CustomMask, ElementCut, Predicate
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.scores import TensorScores
from prune_gui.recipe import Recipe, Resolution, export, resolve, stack
from prune_gui.recipe.recipe import IN_FILE, ZERO
from prune_gui.recipe.stack import AppliedStep

SHAPES = {"conv.weight": (6, 3, 2, 2), "fc.weight": (5, 24), "head.weight": (4, 5)}


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Elements with distinct absolute values, also across tensors."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(1000, generator=generator) + 1.0
    tensors, at = {}, 0
    for name, shape in SHAPES.items():
        count = torch.Size(shape).numel()
        tensors[name] = order[at : at + count].view(shape).clone()
        at += count
    return tensors


@pytest.fixture
def resolved(on_disk) -> Callable[..., Resolution]:
    """Return a function that writes tensors to a new file, and resolves steps for it."""
    numbers = itertools.count()

    def resolve_steps(tensors: dict[str, torch.Tensor], *steps: dict, **rest: object) -> Resolution:
        checkpoint = on_disk(tensors, f"model-{next(numbers)}.safetensors")
        return resolve(Recipe(steps=steps, **rest), checkpoint)

    return resolve_steps


every = st.sampled_from(["*", "fc.*", "conv.weight"])
l1 = st.fixed_dictionaries(
    {
        "method": st.just("l1_unstructured"),
        "targets": st.tuples(every),
        "amount": st.floats(0, 1),
        "scope": st.sampled_from(["local", "global"]),
    }
)
ln = st.fixed_dictionaries(
    {
        "method": st.just("ln_structured"),
        "targets": st.tuples(every),
        "amount": st.floats(0, 1),
        "n": st.sampled_from([1, 2]),
        "dim": st.sampled_from([0, 1]),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(l1 | ln, max_size=4), st.integers(0, 999))
def test_a_sequence_of_steps_gives_the_masks_of_torch(resolved, steps, seed):
    tensors = weights(seed)
    resolution = resolved(tensors, *steps)
    model = {name: nn.Module() for name in tensors}
    for name, module in model.items():
        module.weight = nn.Parameter(tensors[name].clone())
    for step in steps:
        [pattern] = step["targets"]
        chosen = [m for n, m in model.items() if pattern == "*" or n.startswith(pattern[:3])]
        if step.get("scope") == "global":
            for module in chosen:  # torch forgets the earlier masks of hooks unless it owns them
                torch_prune.identity(module, "weight")
            torch_prune.global_unstructured(
                [(module, "weight") for module in chosen],
                torch_prune.L1Unstructured,
                amount=step["amount"],
            )
        for module in chosen if step.get("scope") != "global" else ():
            if step["method"] == "l1_unstructured":
                torch_prune.l1_unstructured(module, "weight", step["amount"])
            else:
                torch_prune.ln_structured(module, "weight", step["amount"], step["n"], step["dim"])
    for name, module in model.items():
        theirs = getattr(module, "weight_mask", torch.ones(SHAPES[name])).bool()
        mask = resolution.mask(name)
        assert torch.equal(mask, theirs)
        assert resolution.counts[name] == (int((~mask).sum()), mask.numel())


def test_pruned_by_is_the_first_step_that_pruned_an_element(resolved):
    resolution = resolved(
        {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]])},
        {"method": "l1_unstructured", "targets": ["w"], "amount": 1},
        {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5, "enabled": False},
        {"method": "ln_structured", "targets": ["w"], "amount": 1},
    )
    assert resolution.pruned_by("w").tolist() == [[1, 3], [0, 0]]
    assert resolution.mask("w").dtype == torch.bool
    assert [dict(outcome.pruned) for outcome in resolution.outcomes] == [{"w": 1}, {}, {"w": 1}]
    assert resolution.total == (2, 4)


def test_zeros_in_the_file_count_as_pruned_if_the_recipe_says_so(resolved):
    tensors = {"w": torch.tensor([0.0, -0.0, 1.0, 2.0]), "b": torch.tensor([0.0, 1.0])}
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}
    dense = resolved(tensors, step)
    assert dense.pruned_by("w").tolist() == [1, 1, 0, 0]
    again = resolved(tensors, step, start="zeros")
    assert again.pruned_by("w").tolist() == [IN_FILE, IN_FILE, 1, 0]
    assert again.counts == {"w": (3, 4), "b": (1, 2)}


def test_a_reparametrized_pair_is_one_parameter_pruned_in_the_file(resolved):
    resolution = resolved(
        {"w_orig": torch.tensor([1.0, 2.0, 3.0, 4.0]), "w_mask": torch.tensor([1.0, 0, 0, 1])},
        {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5},
    )
    assert resolution.pruned_by("w").tolist() == [1, IN_FILE, IN_FILE, 0]


def test_a_pair_with_an_invalid_mask_is_refused_by_name(resolved):
    with pytest.raises(CheckpointError, match="w_mask"):
        resolved({"w_orig": torch.ones(2), "w_mask": torch.tensor([0.5, 1.0])})


def test_scores_and_masks_are_read_from_the_folder_of_the_recipe(tmp_path):
    save_file({"w": torch.tensor([3.0, -1.0, 2.0])}, tmp_path / "scores.safetensors")
    save_file({"w": torch.tensor([True, True, False])}, tmp_path / "masks.safetensors")
    (tmp_path / "recipe.yaml").write_text(
        "steps:\n"
        "- {method: l1_unstructured, targets: [w], amount: 1, importance: scores.safetensors}\n"
        "- {method: custom_from_mask, targets: [w], mask: masks.safetensors}\n"
    )
    save_file({"w": torch.tensor([0.1, 9.0, 9.0])}, tmp_path / "model.safetensors")
    recipe = Recipe.load(tmp_path / "recipe.yaml")
    with applied(tmp_path / "model.safetensors", recipe) as resolution:
        assert resolution.pruned_by("w").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("companion", "says"),
    [
        (None, "scores.safetensors"),
        ({"v": torch.ones(2)}, "no tensor named w"),
        ({"w": torch.ones(3)}, r"shape \[3\].*\[2\]"),
        ({"w": torch.ones(2, dtype=torch.int32)}, "integer"),
    ],
)
def test_scores_that_do_not_fit_are_refused_with_the_step_and_the_file(
    resolved, tmp_path, companion, says
):
    if companion:
        save_file(companion, tmp_path / "scores.safetensors")
    step = {
        "method": "l1_unstructured",
        "targets": ["w"],
        "importance": str(tmp_path / "scores.safetensors"),
    }
    with pytest.raises(StepError, match=says) as caught:
        resolved({"w": torch.ones(2)}, step)
    assert caught.value.step == 1


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"method": "identity", "targets": ["x*"]}, r"no parameter matches x\*\."),
        ({"method": "identity", "targets": ["!x", "stepps"]}, r"!x, stepps \(.* mean steps\?\)\."),
        ({"method": "identity", "targets": ["dim>1"]}, r"dim>1 \(did you mean dims>\?\)\."),
        (
            {"method": "identity", "targets": ["dtype:float32 dim>1"]},
            r"dtype:float32 dim>1 \(did you mean dims>\?\)\.",
        ),
        ({"method": "identity", "targets": ["steps"]}, "steps cannot be pruned: integer"),
        ({"method": "l1_unstructured", "targets": ["b"], "amount": 4}, "b: Cannot.* 4 .* 3 .* 0.5"),
        ({"method": "ln_structured", "targets": ["*"], "amount": 0.5}, r"b has shape \[3\]"),
        ({"method": "ln_structured", "targets": ["w"], "n": "nuc", "dim": 5}, "dim 5"),
    ],
)
def test_a_step_that_cannot_be_carried_out_says_which_parameter_and_why(resolved, step, says):
    tensors = {"w": torch.ones(2, 2), "b": torch.ones(3), "steps": torch.tensor([1, 2])}
    with pytest.raises(StepError, match=says) as caught:
        resolved(tensors, {"method": "identity", "targets": ["w"]}, step)
    assert caught.value.step == 2
    assert str(caught.value).startswith("Step 2: ")


@pytest.mark.parametrize(
    ("pattern", "remark"),
    [
        ("!typo*", "matches no parameter"),
        ("!out_bias", "matches no parameter (did you mean out.bias?)"),
        ("!*layernrom*", "matches no parameter (did you mean LayerNorm?)"),
        ("!dtype:float23", "matches no parameter (did you mean dtype:float32?)"),
        ("!*bn*", None),
        ("!*.ln_*", None),
        ("!type:Embedding", None),
        ("!dims>4", None),
        ("!sparsity>90%", None),
        ("!out*", None),
    ],
)
def test_a_pattern_that_excludes_nothing_is_noted_unless_it_is_written_for_many_models(
    resolved, pattern, remark
):
    tensors = {name: torch.ones(2, 2) for name in ("w", "LayerNorm.weight", "out.bias")}
    [outcome] = resolved(tensors, {"method": "l1_unstructured", "targets": ["w", pattern]}).outcomes
    assert outcome.remarks.get(pattern) == remark


def test_an_unknown_parameter_is_named(resolved):
    with pytest.raises(RecipeError, match="nothing"):
        resolved({"w": torch.ones(2)}).mask("nothing")


def test_resolving_can_be_cancelled_and_reports_progress(on_disk):
    checkpoint = on_disk(weights())
    recipe = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"], "scope": "global"}])
    seen: list[tuple[int, int]] = []
    resolve(recipe, checkpoint, progress=lambda *amounts: seen.append(amounts))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0
    with pytest.raises(Cancelled):
        resolve(recipe, checkpoint, cancel=CancelAfter(0))


@pytest.mark.parametrize("form", ["finalized", "reparametrized"])
def test_the_zeros_of_another_checkpoint_are_a_mask(resolved, tmp_path, form):
    first = resolved(weights(), {"method": "l1_unstructured", "targets": ["*"], "scope": "global"})
    export(first, tmp_path / "pruned.safetensors", form=form)
    take = {
        "method": "custom_from_mask",
        "targets": ["*"],
        "mask": str(tmp_path / "pruned.safetensors"),
    }
    other = resolved(weights(1), {**take, "take": "zeros"})
    for name in SHAPES:
        assert other.mask(name).equal(first.mask(name))
    if form == "finalized":
        with pytest.raises(StepError, match=r"other than 0 and 1.*set take to zeros"):
            resolved(weights(1), take)


def test_the_counts_of_a_step_are_the_sums_over_its_targets(demo_checkpoint):
    steps = [
        {"method": "l1_unstructured", "targets": ["*"], "amount": 0.3, "scope": "global"},
        {"method": "l1_unstructured", "targets": ["*conv*"], "amount": 0.5},
        {"method": "l1_unstructured", "targets": ["*"], "enabled": False},
    ]
    with open_checkpoint(demo_checkpoint) as checkpoint:
        resolution = resolve(Recipe(steps=steps), checkpoint)
    for number, one in enumerate(resolution.outcomes, start=1):
        counts = [resolution.counts[name] for name in one.pruned]
        total = sum(total for _, total in counts)
        assert one.total == (sum(one.pruned.values()), total)
        assert resolution.of_targets(number) == (sum(pruned for pruned, _ in counts), total)
    assert resolution.of_targets(2)[0] > resolution.outcomes[1].total[0] > 0


def test_marked_zeros_are_the_kept_ones_and_change_no_count(resolved):
    tensors = {"w": torch.tensor([0.0, -0.0, 1.0, 2.0]), "b": torch.tensor([0.0, 1.0])}
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": 1}
    resolution = resolved(tensors, step)
    marked = resolution.marking_zeros("w")
    assert marked.pruned_by("w").tolist() == [1, ZERO, 0, 0]
    assert marked.pruned_by("b").tolist() == [0, 0]
    assert marked.counts == resolution.counts
    assert resolution.pruned_by("w").tolist() == [1, 0, 0, 0]


SIZE = 6


@st.composite
def layers(draw: st.DrawFn) -> tuple[AppliedStep, ...]:
    """Up to three applied steps of one parameter, each a cut or a mask."""
    weights = torch.tensor(draw(st.lists(st.integers(-3, 3), min_size=SIZE, max_size=SIZE)))
    keys = ScoreKeys.of(TensorScores.of(weights.float()))
    found = []
    for step in sorted(draw(st.sets(st.integers(1, 4), max_size=3))):
        predicate: Predicate = CustomMask(TensorScores.of(weights > 0))
        if draw(st.booleans()):
            cut = Cut(keys.first_key(draw(st.integers(0, 3))), draw(st.integers(-1, SIZE)), 0)
            predicate = ElementCut(Ranking(keys), Lazy.of_value(cut))
        found.append(AppliedStep(step, predicate))
    return tuple(found)


@given(st.lists(layers(), max_size=8))
def test_batched_masks_equal_the_masks_of_each_parameter(every):
    bounds = np.arange(len(every) + 1) * SIZE
    alone = [stack.kept(own, 0, SIZE) for own in every]
    wanted = np.concatenate([np.zeros(0, bool), *alone])
    assert np.array_equal(stack.kept_of_each(every, bounds), wanted)
    tells = [stack.remaining_mask_of(own) for own in every]
    for one in filter(None, tells):
        assert np.array_equal(one.together(tells, bounds), wanted)


@pytest.mark.usefixtures("foreign_language")
def test_remarks_are_translated(resolved):
    tensors = {"w": torch.ones(1000), "b": torch.ones(3)}
    most = {"method": "l1_unstructured", "targets": ["w", "b", "typo"], "max_sparsity": 0.998}
    steps = {**most, "amount": 998}, {**most, "max_sparsity": 1.0, "amount": 1.0}
    outcomes = resolved(tensors, *steps, protect=["b"]).outcomes
    assert list(outcomes[0].notes) == ["typo", "b", "w"]
    assert foreign("; ") in outcomes[0].notes["w"]  # two remarks in one
    for told in (told for outcome in outcomes for told in outcome.notes.values()):
        assert untranslated(told) == []


def test_a_pattern_that_protects_nothing_is_noted_once(resolved):
    tensors, step = {"w": torch.ones(4), "b": torch.ones(3)}, {"method": "l1_unstructured"}
    disabled = {**step, "targets": ["w"], "enabled": False}
    steps = disabled, {**step, "targets": ["w"]}, {**step, "targets": ["*"]}
    outcomes = resolved(tensors, *steps, protect=["typo*", "b", "!no*"]).outcomes
    assert [list(outcome.notes) for outcome in outcomes] == [[], ["typo*"], ["b"]]
    assert "protects nothing" in outcomes[1].notes["typo*"]


def test_a_mistyped_pattern_of_protection_is_noted_with_what_it_may_mean(resolved):
    tensors = {"encoder.w": torch.ones(4), "head.w": torch.ones(3)}
    step = {"method": "l1_unstructured", "targets": ["*"]}
    [outcome] = resolved(tensors, step, protect=["*.encodr.*"]).outcomes
    assert outcome.notes["*.encodr.*"].endswith(" (did you mean encoder?)")
