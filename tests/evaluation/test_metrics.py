"""The numbers in the output of evaluators."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import EvaluationError
from prune_gui.evaluation.function_worker import plain
from prune_gui.evaluation.metrics import chosen, is_higher_better, metrics_in, metrics_of

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
