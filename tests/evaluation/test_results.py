"""Numbers in the output of evaluators, states, curves and sensitivity."""

from __future__ import annotations

import json
import math
import runpy
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import open_checkpoint
from prune_gui.errors import EvaluationError, RecipeError
from prune_gui.evaluation import Evaluation, Trial
from prune_gui.evaluation.evaluation_jobs import (
    CurvePoint,
    EvaluatedRecipe,
    StateResults,
    SweptStep,
    metric_curves,
    of_step,
    pareto_front,
    sensitivity_curve,
    sensitivity_rows,
    trial_curve,
)
from prune_gui.evaluation.function_worker import plain
from prune_gui.evaluation.metrics import (
    Metric,
    chosen,
    is_higher_better,
    metrics_in,
    metrics_of,
    share_of,
)
from prune_gui.evaluation.spec import DEMO, EvaluatorChoice, choice_for, functions_in
from prune_gui.evaluation.trials import step_of
from prune_gui.recipe import Recipe
from prune_gui.resources import resource
from prune_gui.session import Session, Settings

STEP = step_of({"method": "l1_unstructured", "targets": ["*"], "amount": 0.5})


def evaluation(pruned=0, **metrics):
    return Evaluation(metrics, 1.0, 2, pruned, 100)


@pytest.fixture
def session(demo_checkpoint):
    with open_checkpoint(demo_checkpoint) as opened:
        yield Session(opened)


def test_of_several_metrics_the_first_counts_until_one_is_chosen():
    found = evaluation(top1=0.9, loss=3.0)
    assert (Metric().name_in(found), Metric().value(found)) == ("top1", 0.9)
    assert (Metric("loss").value(found), Metric("loss", None, "L").title(found)) == (3.0, "L")
    assert math.isnan(Metric("other").value(found))
    assert math.isnan(Metric().value(None))
    assert not Metric("loss").higher_is_better(found)
    assert Metric("loss", "higher").higher_is_better(found)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, allow_infinity=False))
def test_a_share_times_the_dense_value_is_the_value(value, dense):
    share = share_of(value, dense)
    assert math.isnan(share) if dense == 0 else share == value / dense


def test_states_have_the_result_of_their_recipe_and_an_old_stack_is_out_of_date(session):
    results = StateResults()
    session.name_state("begin")
    dense, half = evaluation(score=1.0), evaluation(50, score=0.5)
    results.put(EvaluatedRecipe(Recipe(), error="crashed"))
    results.put(EvaluatedRecipe(Recipe(), dense))  # in its place
    rows = results.rows(session.recipe, session.named_states)
    assert [(row.kind, row.name, row.evaluation) for row in rows] == [
        ("file", "", dense), ("stack", "", dense), ("named", "begin", dense),
    ]  # fmt: skip
    session.add(STEP)
    _, stack, begin = results.rows(session.recipe, session.named_states)
    assert (stack.stale, stack.evaluation, begin.stale) == (True, dense, False)
    results.running = session.recipe
    results.put(EvaluatedRecipe(session.recipe, half))
    _, stack, _ = results.rows(session.recipe, session.named_states)
    assert (stack.stale, stack.running, stack.evaluation) == (False, True, half)
    session.undo()
    assert results.rows(session.recipe, session.named_states)[1].evaluation is dense


def test_a_swept_step_is_appended_replaces_its_step_or_is_alone():
    base = Recipe(steps=(STEP, STEP))
    tried = step_of({"method": "l1_unstructured", "targets": ["*"], "amount": 0.25})
    appended, alone = (of_step("x", STEP, None).recipe_at(0.25, base), None)
    assert appended.steps == (STEP, STEP, tried)
    assert of_step("x", STEP, 0).recipe_at(0.25, base).steps == (tried, STEP)
    alone = SweptStep("x", lambda _: tried, alone=True)
    assert alone.recipe_at(0.25, base).steps == (tried,)
    with pytest.raises(RecipeError):
        of_step("x", STEP, None).recipe_at(1.5, base)


def test_curves_are_ordered_by_sparsity_and_leave_out_what_failed():
    one, other = of_step("one", STEP, None), of_step("other", STEP, 0)
    points = [
        CurvePoint(one, 0.9, None, evaluation(90, a=0.1, b=5.0)),
        CurvePoint(other, 0.5, None, error="failed"),
        CurvePoint(one, 0.5, None, evaluation(50, a=0.8, b=7.0)),
    ]
    first, second = metric_curves(points, Metric("b"))
    assert (first.label, second.label, second.points) == ("one", "other", ())
    assert [point.amount for point in first.points] == [0.5, 0.9]
    np.testing.assert_array_equal(first.sparsity, [50, 90])
    np.testing.assert_array_equal(first.values, [7, 5])


def test_a_drop_is_positive_where_the_value_is_worse():
    dense = evaluation(loss=1.0)
    trials = [
        Trial("a", 0.5, (STEP,), evaluation(5, loss=3.0), 3.0),
        Trial("b", 0.5, (STEP,), evaluation(5, loss=0.5), 0.5),
        Trial("b", 0.9, (STEP,), None, math.nan, "crashed"),
    ]
    rows = sensitivity_rows({"a": (), "b": ()}, (0.5, 0.9), trials, dense, Metric())
    assert [(row.label, row.values[0], row.drops[0]) for row in rows] == [
        ("a", 3.0, 2.0), ("b", 0.5, -0.5),
    ]  # fmt: skip
    assert [row.trials for row in rows] == [(trials[0], None), (trials[1], trials[2])]
    assert math.isnan(rows[0].drops[1])
    assert [row.largest_drop for row in rows] == [2.0, 0.0]
    curves = [sensitivity_curve(row) for row in rows]
    assert [(curve.label, curve.points) for curve in curves] == [
        ("a", (trials[0],)), ("b", (trials[1],)),
    ]  # fmt: skip
    assert [curve.values.tolist() for curve in curves] == [[3.0], [0.5]]


def test_the_front_of_a_search_has_the_trials_that_no_other_beats():
    found = [(50, 0.9), (70, 0.9), (70, 0.8), (80, math.nan), (60, 0.95), (90, 0.1)]
    trials = [Trial("x", 0.5, (), evaluation(pruned, acc=value), value) for pruned, value in found]
    curve = trial_curve("", [Trial("x", 0.5, (), None, math.nan, "failed"), *trials], Metric())
    assert curve.sparsity.tolist() == [50, 60, 70, 70, 80, 90]
    front = pareto_front(curve, higher_is_better=True)
    assert [curve.values[at] for at in front] == [0.95, 0.9, 0.1]
    assert [curve.sparsity[at] for at in pareto_front(curve, higher_is_better=False)] == [90]


def test_an_evaluator_is_kept_in_the_settings_with_its_options(tmp_path):
    first = EvaluatorChoice(text="a.py:f", python="/bin/python", better="lower", timeout_s=3)
    second = EvaluatorChoice(text="b.py:g")
    path = tmp_path / "settings.json"
    changed = Settings().with_evaluator(first).with_evaluator(second)
    changed.save(path)
    assert Settings.load(path).evaluators == (second, first)
    renamed = first.model_copy(update={"metric": "loss"})
    assert changed.with_evaluator(renamed).evaluators == (renamed, second)


def test_the_evaluator_of_the_demo_needs_only_what_the_program_needs(demo_checkpoint, monkeypatch):
    monkeypatch.syspath_prepend(resource("demo"))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    evaluate = runpy.run_path(str(resource("demo", "evaluate.py")))["evaluate"]
    assert evaluate(demo_checkpoint) == {"accuracy": 0.994}


def test_the_demo_has_an_evaluator_and_other_checkpoints_that_used_last(demo_checkpoint, tmp_path):
    recent = (EvaluatorChoice(text="a.py:f"), EvaluatorChoice(text="b.py:g"))
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(demo_checkpoint.read_bytes())
    with open_checkpoint(demo_checkpoint) as demo, open_checkpoint(copy) as other:
        assert choice_for(demo, recent) is DEMO
        assert choice_for(other, recent) is recent[0]
        assert choice_for(other, ()) is None
    assert DEMO.make().spec.function == "evaluate"


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "defines no function"), ("def", "is not a Python file"), (None, "cannot be read")],
)
def test_functions_of_a_file_are_found_without_running_it(tmp_path, text, message):
    path = tmp_path / "functions.py"
    path.write_text("raise SystemExit\ndef _no(): ...\ndef one(): ...\nclass C:\n  def f(): ...\n")
    assert functions_in(path) == ["one"]
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(EvaluationError, match=message):
        functions_in(path)


NUMBERS = st.dictionaries(
    st.text("abcdefgh {}\"[]:1", min_size=1, max_size=9),
    st.floats(allow_nan=False) | st.integers(-(10**6), 10**6),
    min_size=1, max_size=5,
)  # fmt: skip
RUBBISH = st.lists(
    st.sampled_from(["", "{", "}", "epoch 3: loss 0.1", "[1, 2]", "12 %", "{'a': 1}"])
)


@pytest.mark.hypothesis
@given(NUMBERS, RUBBISH, RUBBISH, st.sampled_from([None, 2]))
def test_the_last_object_is_found_between_other_lines(numbers, before, after, indent):
    after = [line for line in after if line != "}"]
    before = [line for line in before if line != "{"]
    text = "\n".join(
        [*before, "7", json.dumps({"x": 1}), json.dumps(numbers, indent=indent), *after]
    )
    assert metrics_in(text) == {key: float(value) for key, value in numbers.items()}


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("0.5", {"value": 0.5}),
        ("epoch 1\n0.5\n1e-3 \ndone\n", {"value": 0.001}),
        ("nan", {"value": math.nan}),
        ('{"a": {"b": 1}}', {"a.b": 1.0}),
        ('{"outer": {\n"inner": 1\n}, "x": 2}', {"outer.inner": 1.0, "x": 2.0}),
        ('{"a": 1}\n{"message": "saved"}\n', {"a": 1.0}),
        ('{"results": {"t": {"acc,none": 1, "acc_stderr,none": 2}}, "n": 5}', {"t.acc": 1.0}),
    ],
)
def test_an_output_is_read(text, metrics):
    assert str(metrics_in(text)) == str(metrics)


@pytest.mark.parametrize("text", ["", "good", "accuracy: 0.5", "[1]", "{" * 100_000, '{"a": "b"}'])
def test_an_output_without_a_result_is_refused(text):
    with pytest.raises(EvaluationError, match="printed no result"):
        metrics_in(text)


@pytest.mark.parametrize(
    ("result", "numbers"),
    [
        (3, 3.0),
        (torch.tensor(0.5), 0.5),
        (np.float32(0.5), 0.5),
        ({"a": {"b": 1, "text": "x"}, "c": True}, {"a": {"b": 1.0}, "c": 1.0}),
    ],
)
def test_results_of_functions_of_any_kind_are_read(result, numbers):
    assert plain(result) == numbers


def test_nested_values_without_end_are_refused():
    nested: dict[str, object] = {}
    nested["x"] = nested
    with pytest.raises(EvaluationError, match="no number"):
        metrics_of(nested)


def test_the_metric_that_counts_is_the_wanted_the_only_or_an_obvious_one():
    assert chosen({"a": 1.0, "b": 2.0}, "b") == "b"
    assert chosen({"a": 1.0}, None) == "a"
    assert chosen({"a": 1.0, "score": 2.0}, None) == "score"
    with pytest.raises(EvaluationError, match=r"Choose one of them \(--metric NAME\): a, b"):
        chosen({"a": 1.0, "b": 2.0}, None)
    with pytest.raises(EvaluationError, match=r"no metric 'c'\. It returned: a, b"):
        chosen({"a": 1.0, "b": 2.0}, "c")


def test_losses_are_better_when_lower():
    lower = ("loss", "val_loss", "wikitext.word_perplexity", "Perplexity", "top1-error")
    assert not any(map(is_higher_better, lower))
    assert all(map(is_higher_better, ("acc", "lossless", "f1", "cos_to_dense", "value")))


def test_the_printed_tables_of_lm_evaluation_harness_are_read():
    text = """hf (pretrained=model), num_fewshot: None
|    Tasks     |Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|
|--------------|------:|----------------|-----:|-----------|---|-----:|---|-----:|
|arc_easy      |      1|none            |     0|acc        |↑  |0.7601|±  |0.0088|
|              |       |none            |     0|acc_norm   |↑  |0.7180|±  |0.0092|
|gsm8k         |      3|flexible-extract|     5|exact_match|↑  |0.1234|±  |   N/A|
| - sub        |      3|none            |     5|word_perplexity|↓|12.5|±  |   N/A|

|Groups|Version|Filter|n-shot|Metric|   |Value|   |Stderr|
|------|------:|------|------|------|---|----:|---|-----:|
|mmlu  |      2|none  |      |acc   |↑  |  0.5|±  |0.0040|
|      |       |none  |      |broken|↑  |  N/A|±  |0.0040|
"""
    assert metrics_in(text) == {
        "arc_easy.acc": 0.7601,
        "arc_easy.acc_norm": 0.7180,
        "gsm8k.exact_match,flexible-extract": 0.1234,
        "sub.word_perplexity": 12.5,
        "mmlu.acc": 0.5,
    }
    assert metrics_in(text + '{"acc": 1}') == {"acc": 1.0}
