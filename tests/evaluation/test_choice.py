"""The chosen evaluator, as it is kept in the settings."""

from __future__ import annotations

import pytest

from prune_gui import open_checkpoint
from prune_gui.errors import EvaluationError
from prune_gui.evaluation.choice import DEMO, EvaluatorChoice, choice_for, functions_in
from prune_gui.session import Settings


def test_an_evaluator_is_kept_in_the_settings_with_its_options(tmp_path):
    first = EvaluatorChoice(text="a.py:f", python="/bin/python", better="lower", timeout_s=3)
    second = EvaluatorChoice(text="b.py:g")
    path = tmp_path / "settings.json"
    changed = Settings().with_evaluator(first).with_evaluator(second)
    changed.save(path)
    assert Settings.load(path).evaluators == (second, first)
    renamed = first.model_copy(update={"metric": "loss"})
    assert changed.with_evaluator(renamed).evaluators == (renamed, second)


def test_the_demo_has_an_evaluator_and_other_checkpoints_that_used_last(demo_checkpoint, tmp_path):
    recent = (EvaluatorChoice(text="a.py:f"), EvaluatorChoice(text="b.py:g"))
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(demo_checkpoint.read_bytes())
    with open_checkpoint(demo_checkpoint) as demo, open_checkpoint(copy) as other:
        assert choice_for(demo, recent) is DEMO
        assert choice_for(other, recent) is recent[0]
        assert choice_for(other, ()) is None
    assert DEMO.make().spec.function == "evaluate"


def test_public_functions_of_a_file_are_found_without_running_it(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("raise SystemExit\ndef _no(): ...\ndef one(): ...\nclass C:\n  def f(): ...\n")
    assert functions_in(path) == ["one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "defines no function"), ("def", "is not a Python file"), (None, "cannot be read")],
)
def test_a_file_without_a_function_is_refused(tmp_path, text, message):
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(EvaluationError, match=message):
        functions_in(path)
