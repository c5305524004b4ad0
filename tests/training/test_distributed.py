"""Masks hold in two processes, and are those of one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from prune_gui import training
from tests.training.one_rank import SCHEDULE, network, recipe, train

SCRIPT = Path(__file__).with_name("one_rank.py")
KINDS = {
    "ddp": {"scope": "global"},
    "global": {"scope": "global"},
    "local": {"scope": "local"},
    "lamp": {"method": "lamp"},
    "replaced": {"scope": "global"},
}


pytestmark = pytest.mark.slow


def run_two(kind, folder):
    commands = [
        [sys.executable, SCRIPT, str(rank), folder / "meeting", kind, folder] for rank in (0, 1)
    ]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    errors = [process.communicate(timeout=120)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors


def test_adapters_of_peft_are_merged_under_the_masks_of_two_processes(tmp_path):
    pytest.importorskip("peft")
    run_two("adapters", tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_prune_as_one(kind, tmp_path):
    run_two(kind, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    total = sum(elements for _, _, elements, _ in report)
    assert sum(pruned for _, pruned, _, _ in report) == pytest.approx(
        (0.5 if kind == "replaced" else 0.7) * total, abs=1.5
    )
    assert not any(revived for *_, revived in report)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = training.one_shot(0.5) if kind == "replaced" else SCHEDULE
    kept = training.keep(model, optimizer, recipe(**KINDS[kind]), schedule=schedule)
    first = torch.load(tmp_path / "first.pt")
    assert first.keys() == kept.masks.keys()
    for name, mask in kept.masks.items():
        assert torch.equal(first[name], mask.bits), name
    again = training.keep(model, optimizer, resume=tmp_path / "run")
    assert [one.pruned for one in again.report()] == [pruned for _, pruned, _, _ in report]
    train(model, optimizer, 1)
    assert not any(one.revived for one in again.report())
