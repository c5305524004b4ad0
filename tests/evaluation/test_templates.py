"""The template of an evaluator for models of transformers."""

from __future__ import annotations

import json
import math
import runpy

import pytest
from small_tokenizers import tokenizer_json
from transformer_families import save_model

from prune_gui.resources import resource

pytestmark = pytest.mark.slow


@pytest.fixture
def perplexity(tmp_path):
    """Return a function that evaluates a model of a family with the template as it is written."""
    template = runpy.run_path(str(resource("evaluators", "evaluate_transformers.py")))

    def evaluate(family):
        save_model(family, tmp_path, vocab_size=1000)
        (tmp_path / "tokenizer.json").write_text(tokenizer_json("byte_bpe"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return template["evaluate"](tmp_path / "model.safetensors")["perplexity"]

    return evaluate


def test_a_causal_language_model_has_a_perplexity(perplexity):
    assert 1 < perplexity("llama") < math.inf


def test_a_model_without_the_head_is_refused_and_not_measured_with_a_random_one(perplexity):
    with pytest.raises(ValueError, match=r"no causal language model, it has no cls\."):
        perplexity("bert")
