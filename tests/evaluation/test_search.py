"""Searching a recipe: the best at a sparsity, and the most sparsity that holds a value."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from prune_gui import Recipe, export, record, resolve, scan, search
from prune_gui.errors import Cancelled, EvaluationError, RecipeError
from prune_gui.evaluation import PORTFOLIO, Evaluator, NamedRanking, Search
from prune_gui.evaluation.portfolio import NamedRanking as PortfolioRanking
from prune_gui.evaluation.trials import groups_of

ENERGY = """
    import json, pathlib
    def evaluate(sd, split="final"):
        with open(__file__ + ".calls", "a") as file:
            file.write(split[0])
        energy = sum(float((t.double() ** 2).sum()) for t in sd.values())
        return {"energy": energy, "loss": 10 - energy, "bad": float("nan")}
"""
"""Energy that is kept; global L1 keeps the most at any sparsity."""


@pytest.fixture
def network(on_disk):
    """Return an open checkpoint of four layers with weights of different scales; energy 1."""
    shapes = {"a.weight": (40, 30), "b.weight": (50, 4), "c.weight": (8, 8), "a.bias": (40,)}
    tensors = {name: torch.randn(shape) * (1 + len(shape)) for name, shape in shapes.items()}
    tensors["a.bias"].zero_()
    total = math.sqrt(sum(float((t**2).sum()) for t in tensors.values()))
    return on_disk({name: t / total for name, t in tensors.items()})


class FakeEvaluator(Evaluator):
    """Evaluates a resolution without a process, by a function of ranking and sparsity."""

    def __init__(self, judge, better="higher", splits=False):
        self._judge, self._better = judge, better
        self.spec = SimpleNamespace(takes_split=splits)
        self.metric, self._name = None, None
        self.seen = []

    def evaluate_lazily(self, checkpoint, recipe, resolve, split, monitor):
        from prune_gui.evaluation import Evaluation

        monitor.advance()
        amount, name = 0.0, "dense"
        if recipe.steps:
            method = recipe.steps[-1].method
            amount = getattr(method, "amount", 0.0)
            name = f"{method.name} {dict(method).get('scope', '')}".strip()
        self.seen.append((name, amount, split))
        value = self._judge(name, amount)
        if isinstance(value, Exception):
            raise value
        return Evaluation({"value": value}, 0, 0, int(amount * 100), 100)


NAMES = {"global": "l1_unstructured global", "uniform": "l1_unstructured local"}


def cliff(**edges):
    """Return a judge: 1 up to the edge of a ranking, then falling with the distance from it."""
    edges = {NAMES.get(name, name): edge for name, edge in edges.items()}
    return lambda name, amount: 1 - max(0, amount - edges.get(name, 0.0))


@pytest.mark.parametrize("edge", [0.0, 0.005, 0.1, 0.37, 0.5, 0.555, 0.984])
@pytest.mark.parametrize("ranking", ["global", "uniform", "lamp", "erk"])
def test_the_most_sparsity_of_any_ranking_is_found(network, edge, ranking):
    evaluator = FakeEvaluator(cliff(**{ranking: edge}))
    result = search(evaluator, network, at_least=0.999999)
    expected = math.floor(edge * 100 + 1e-9) / 100
    assert (result.best.amount if result.best else 0.0) == expected
    if expected:
        assert result.recipe.steps[-1].method.amount == expected
        assert result.final.metrics["value"] >= result.limit
    assert len(result.trials) <= 14 + 2 * len(PORTFOLIO)


@pytest.mark.parametrize("leader", ["global", "uniform", "lamp", "erk"])
def test_a_ranking_that_loses_at_high_sparsity_may_win(network, leader):
    """The curves cross: the winner at the limit is the worst one far above it."""

    def judge(name, amount):
        if name == NAMES.get(leader, leader):
            return 1 - 5 * max(0, amount - 0.3)
        return 1 - max(0, amount - 0.2)

    result = search(FakeEvaluator(judge), network, at_least=0.999999)
    assert result.best.amount == 0.3


def test_lower_values_can_be_better(network):
    evaluator = FakeEvaluator(lambda _, amount: 10 * (1 + amount), better="lower")
    result = search(evaluator, network, at_least=0.8)
    assert result.limit == 12.5
    assert result.best.amount == 0.25
    assert search(evaluator, network, at_least=11, absolute=True).best.amount == 0.1


@pytest.mark.parametrize("dense", [0.0, -3.0, math.inf, math.nan])
def test_a_share_without_meaning_is_refused(network, dense):
    with pytest.raises(EvaluationError, match="--absolute"):
        search(FakeEvaluator(lambda *_: dense), network, at_least=0.9)


def test_a_limit_that_the_dense_model_does_not_hold_is_refused(network):
    with pytest.raises(EvaluationError, match=r"value is 0\.5 before the search .* not hold 0\.9"):
        search(FakeEvaluator(lambda *_: 0.5), network, at_least=0.9, absolute=True)
    with pytest.raises(ValueError, match="either"):
        search(FakeEvaluator(lambda *_: 0.5), network)


@pytest.mark.parametrize("failure", [math.nan, EvaluationError("it crashed"), RecipeError("no")])
def test_failing_trials_do_not_hold(network, failure):
    def judge(_, amount):
        return failure if amount > 0.3 else 1.0

    result = search(FakeEvaluator(judge), network, at_least=0.9)
    assert result.best.amount == 0.3
    errors = {trial.error for trial in result.trials if trial.amount > 0.3}
    assert errors == {str(failure) if isinstance(failure, Exception) else ""}


def test_the_best_ranking_at_an_amount_is_chosen_and_ties_go_to_the_first(network):
    result = search(FakeEvaluator(cliff(erk=0.5)), network, amount=0.7)
    assert (result.best.label, len(result.trials)) == ("ERK", len(PORTFOLIO))
    equal = search(FakeEvaluator(lambda *_: 1.0), network, amount=0.7)
    assert equal.best.label == PORTFOLIO[0].name
    crashing = FakeEvaluator(lambda _, a: EvaluationError("it crashed") if a else 1.0)
    with pytest.raises(EvaluationError, match="it crashed"):
        search(crashing, network, amount=0.7)


def test_the_final_figure_uses_another_split_if_there_is_one(network):
    evaluator = FakeEvaluator(cliff(), splits=True)
    search(evaluator, network, amount=0.7)
    splits = [split for _, _, split in evaluator.seen]
    assert splits == ["search"] * (1 + len(PORTFOLIO)) + ["final"] * 2
    without = FakeEvaluator(cliff())
    result = search(without, network, amount=0.7)
    assert {split for _, _, split in without.seen} == {"search"}
    assert result.final is result.best.evaluation


def test_what_was_found_before_a_cancel_can_be_read(network):
    stop = threading.Event()
    run = Search(
        FakeEvaluator(cliff(erk=0.9)), network, cancel=stop,
        show_trial=lambda trial: stop.set() if trial.label == "ERK" else None,
    )  # fmt: skip
    with pytest.raises(Cancelled):
        run.at_least(0.99)
    assert run.best.label == "ERK"
    assert run.best_recipe.steps[-1].method.name == "erk"


def test_another_portfolio_and_base_recipe_are_used(network):
    base = Recipe.from_yaml('steps: [{method: threshold, targets: ["b.weight"], value: 0.001}]')
    random = NamedRanking("random", {"method": "random_unstructured", "seed": 3})
    assert NamedRanking is PortfolioRanking
    result = search(
        FakeEvaluator(cliff()), network, amount=0.5, portfolio=[random], recipe=base,
        targets=["c.*"],
    )  # fmt: skip
    names = [step.method.name for step in result.recipe.steps]
    assert names == ["threshold", "random_unstructured"]
    assert result.recipe.steps[1].targets == ("c.*",)


@pytest.mark.slow
def test_recordings_beside_the_checkpoint_give_rankings_and_corrections(
    on_disk, tmp_path, evaluator
):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    opened = on_disk(model.state_dict())
    with record(model, "activations", "ria", "second_moments", "means") as recording:
        model(torch.randn(20, 8))
    recording.save(tmp_path / "statistics")
    result = search(evaluator(ENERGY, metric="energy"), opened, amount=0.5)
    labels = [trial.label for trial in result.trials]
    assert labels[:2] == ["Wanda, row", "Wanda, LAMP"]
    assert not any(trial.error for trial in result.trials)
    plain, corrected = labels[:-2], labels[-2:]
    assert all(label.endswith(", corrected") for label in corrected)
    assert len(plain) == len(PORTFOLIO) + 4
    [refit, bias] = result.trials[-1].steps[1:]
    assert (refit.method.name, bias.method.name) == ("refit", "bias_correction")


def test_a_search_with_a_real_evaluator_gives_an_ordinary_recipe(evaluator, network, tmp_path):
    made = evaluator(ENERGY, metric="energy")
    result = search(made, network, at_least=0.9)
    recipe = Recipe.from_yaml(result.recipe.to_yaml())
    export(resolve(recipe, network), tmp_path / "out.safetensors")
    exported = load_file(tmp_path / "out.safetensors")
    energy = sum(float((t.double() ** 2).sum()) for t in exported.values())
    assert energy == pytest.approx(result.final.metrics["energy"])
    assert energy >= 0.9 * result.final_dense.metrics["energy"]
    sizes = [exported[name].numel() for name in exported if name.endswith("weight")]
    zeros = sum(int((exported[name] == 0).sum()) for name in exported if name.endswith("weight"))
    assert zeros == round(result.best.amount * sum(sizes))
    calls = (tmp_path / "own_eval.py.calls").read_text()
    assert calls == "s" * (1 + len(result.trials)) + "f" * 2
    again = search(evaluator(ENERGY, metric="energy"), network, at_least=0.9)
    assert again.recipe == result.recipe
    assert (tmp_path / "own_eval.py.calls").read_text() == calls
    loss = search(evaluator(ENERGY, metric="loss"), network, amount=0.5)
    assert loss.best.label == "global L1"  # keeps the most energy
    with pytest.raises(EvaluationError, match="Choose one of them"):
        search(evaluator(ENERGY), network, amount=0.5)


ZEROS = """
    def evaluate(sd):
        zeros = {name: float((t == 0).double().mean()) for name, t in sd.items()}
        if zeros["encoder.0.b.weight"] > 0.6:
            raise ValueError("too sparse")
        return {"score": sum(zeros.values()), **zeros}
"""


@pytest.fixture
def scanned_network(on_disk):
    names = ("encoder.0.a.weight", "encoder.0.b.weight", "encoder.1.a.weight", "head[0].weight")
    tensors = {name: torch.randn(8, 10) for name in names}
    tensors["head[0].bias"] = torch.randn(8)
    return on_disk(tensors)


def test_groups_are_parameters_or_share_the_first_parts_of_the_name(scanned_network):
    assert list(groups_of(scanned_network, ["dims>1"], None)) == [
        *("encoder.0.a.weight", "encoder.0.b.weight", "encoder.1.a.weight", "head[0].weight"),
    ]
    assert list(groups_of(scanned_network, ["encoder*"], 2)) == ["encoder.0", "encoder.1"]
    with pytest.raises(RecipeError, match="no parameter that can be pruned"):
        groups_of(scanned_network, ["nothing*"], None)


def test_a_scan_leaves_out_what_the_recipe_protects(scanned_network):
    groups = groups_of(scanned_network, ["encoder*"], 2, ["encoder.0.a*", "encoder.1.*"])
    assert groups == {"encoder.0": ("encoder.0.b.weight",)}


@pytest.mark.slow
def test_each_target_is_pruned_by_itself(evaluator, scanned_network):
    result = scan(evaluator(ZEROS), scanned_network, [0.5, 0.8])
    assert result.dense.metrics["score"] == 0
    seen = result.trials
    assert [(t.label, t.amount) for t in seen[:3]] == [
        *(("encoder.0.a.weight", 0.5), ("encoder.0.a.weight", 0.8), ("encoder.0.b.weight", 0.5)),
    ]
    for trial in seen:
        if trial.label == "encoder.0.b.weight" and trial.amount == 0.8:
            assert "ValueError: too sparse" in trial.error
        else:
            assert trial.value == trial.evaluation.metrics[trial.label] == trial.amount
    groups = scan(evaluator(ZEROS), scanned_network, [0.5], targets=["encoder*"], depth=2)
    assert [trial.value for trial in groups.trials] == [1.0, 0.5]


@pytest.mark.slow
def test_a_scan_that_cannot_begin_is_one_message(evaluator, scanned_network):
    refusals = {
        "identity": "^identity is no method with an amount",
        "no_such": "^no_such is no method with an amount",
        "l1_unstructred": r"did you mean l1_unstructured\?\) is no method",
    }
    for method, says in refusals.items():
        with pytest.raises(RecipeError, match=says):
            scan(evaluator(ZEROS), scanned_network, method=method)
    with pytest.raises(EvaluationError, match="ValueError: always"):
        scan(evaluator("def evaluate(sd): raise ValueError('always')"), scanned_network)
