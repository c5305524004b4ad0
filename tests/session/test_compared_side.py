from pathlib import Path

import pytest

from prune_gui.recipe import Step
from prune_gui.session.subjects import (
    FILE,
    AfterStep,
    NamedState,
    OtherCheckpoint,
    Present,
    Stack,
    text_of,
)

STEPS = tuple(
    Step.model_validate({"method": method, "targets": ["*"], **parameters})
    for method, parameters in (("l1_unstructured", {"amount": 1}), ("lamp", {"amount": 1}))
)


@pytest.mark.parametrize(
    ("side", "text"),
    [
        (FILE, "The original file"),
        (AfterStep(2), "After step 2: LAMP"),
        (AfterStep(3), "After step 3"),
        (Stack(), "The stack without the draft"),
        (NamedState("gentle\nhand"), "Named state: gentle\\nhand"),
        (OtherCheckpoint(Path("/tmp/other.safetensors")), "tmp/other.safetensors"),
    ],
)
def test_each_side_has_a_name(side, text):
    assert text_of(side, STEPS, drafted=False) == text


def test_the_present_is_named_after_what_it_contains():
    assert text_of(Present(), STEPS, drafted=False) == "The stack"
    assert text_of(Present(), STEPS, drafted=True) == "The stack and the draft"
