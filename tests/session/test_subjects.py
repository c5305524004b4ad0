"""The subjects of the views, and the messages without one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Step, resolve
from prune_gui.recipe.recipe import IN_FILE, KEPT
from prune_gui.session import Session
from prune_gui.session.subjects import (
    FILE,
    AfterStep,
    ModelSubject,
    NamedState,
    OtherCheckpoint,
    Present,
    Stack,
    Subject,
    model_subject_of,
    subject_of,
    text_of,
)


@pytest.fixture
def session(on_disk):
    return Session(on_disk({"fc.weight": torch.ones(2, 3), "steps": torch.tensor(7)}))


def test_without_a_subject_the_message_says_what_to_do(session):
    for message in (subject_of(None, None, None, None), model_subject_of(None, None, None)):
        assert message.startswith("Nothing is open")
    assert subject_of(session, None, None, None).startswith("Choose a parameter")
    assert subject_of(session, None, "steps", None) == "steps cannot be pruned: integer."


def test_there_is_no_subject_before_the_first_resolution_of_the_open_file(session):
    with open_checkpoint(session.checkpoint.path) as earlier:
        for shown in (None, resolve(Recipe(), earlier)):
            assert isinstance(subject_of(session, shown, "fc.weight", None), str)
            assert isinstance(model_subject_of(session, shown, None), str)


def test_the_subject_is_the_chosen_parameter_of_the_shown_resolution(session):
    shown = resolve(Recipe(), session.checkpoint)
    subject = subject_of(session, shown, "fc.weight", 1)
    assert (subject.resolution, subject.name, subject.draft) == (shown, "fc.weight", 1)
    assert model_subject_of(session, shown, 1).resolution is shown


def test_a_mask_beside_weights_is_a_subject_without_steps(on_disk):
    tensors = {"weight": torch.ones(4), "causal": torch.tensor([True, False, False])}
    checkpoint = on_disk({**tensors, "codes": torch.tensor([0, 1, 2], dtype=torch.uint8)})
    session = Session(checkpoint)
    shown, masks = resolve(Recipe(), checkpoint), session.resolver.masks(Monitor())
    assert session.resolver.masks(Monitor()) is masks
    subject = subject_of(session, shown, "causal", 1, masks)
    assert (subject.resolution, subject.draft) == (masks, None)
    assert subject.counts() == {KEPT: 1, IN_FILE: 2}
    assert [subject.title(code) for code in subject.counts()] == ["kept", "zero"]
    assert subject.facts() == "3 · bool · 2 of 3 pruned (66.7 %)"
    assert subject_of(session, shown, "weight", None, masks).resolution is shown
    message = subject_of(session, shown, "codes", None, masks)
    assert message == "codes cannot be pruned: integer."


STEPS = tuple(
    Step.model_validate({"method": method, "targets": ["*"], **parameters})
    for method, parameters in (("l1_unstructured", {"amount": 1}), ("lamp", {"amount": 1}))
)


@pytest.mark.parametrize(
    ("side", "drafted", "text"),
    [
        (FILE, False, "The file as opened"),
        (AfterStep(2), False, "After step 2: LAMP"),
        (AfterStep(3), False, "After step 3"),
        (Stack(), False, "The stack without the draft"),
        (Present(), False, "The stack"),
        (Present(), True, "The stack and the draft"),
        (NamedState("gentle\nhand"), False, "Named state: gentle\\nhand"),
        (OtherCheckpoint(Path("/tmp/other.safetensors")), False, "tmp/other.safetensors"),
    ],
)
def test_each_side_has_a_name(side, drafted, text):
    assert text_of(side, STEPS, drafted=drafted) == text


def test_counts_separate_steps_and_draft(resolved):
    weight = torch.arange(1.0, 49).view(8, 6)
    steps = [
        {"method": "l1_unstructured", "amount": 12},
        {"method": "l1_unstructured", "amount": 1, "enabled": False},
        {"method": "l1_unstructured", "amount": 6},
    ]
    resolution = resolved(*steps, fc=weight)
    subject = Subject(resolution, resolution.checkpoint.tensors["fc"], 3)
    assert subject.counts() == {KEPT: 30, 1: 12, 3: 6}
    assert subject.title(1) == "step 1: L1 unstructured"
    assert subject.title(3) == "the draft: L1 unstructured"


def test_zeros_in_the_file_are_counted_separately(resolved):
    resolution = resolved(start="zeros", bias=torch.arange(8.0) - 3)
    subject = Subject(resolution, resolution.checkpoint.tensors["bias"], None)
    assert subject.counts() == {KEPT: 7, IN_FILE: 1}
    assert subject.title(IN_FILE) == "pruned in the file"


@pytest.mark.parametrize(
    ("path", "name"), [("a/net.pt", "net.pt"), ("llama/model.safetensors.index.json", "llama")]
)
def test_a_model_has_the_name_of_its_file_and_of_shards_that_of_their_folder(path, name):
    opened = SimpleNamespace(checkpoint=SimpleNamespace(path=Path(path)))
    assert ModelSubject(opened, None).name == name
