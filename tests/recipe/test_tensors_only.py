"""Copies of torch files that name code: with all of it, or with the tensors alone."""

import argparse
import os
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from applied import applied
from torch import nn

import prune_gui
from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.formats import FORMATS
from prune_gui.checkpoint.named_code import code_statement
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputPath, Recipe, export, resolve, verify
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.exporting import parts_to_write
from prune_gui.recipe.extra_files import loader_text
from prune_gui.recipe.loading_code import loading_code
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.script import command_line, python_script
from prune_gui.recipe.several_files import prune_file
from prune_gui.recipe.sizes import sizes
from prune_gui.report.collecting import report_on_files
from prune_gui.report.writing import html_page
from prune_gui.resources import resource

RECIPE = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5}]}
)
PLAIN = argparse.Namespace(lr=0.1)


class RunsProgram:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class Executes(RunsProgram):
    def __reduce__(self):
        return exec, (f"import os; os.system({self.command!r})",)


@pytest.fixture
def mark(tmp_path) -> Path:
    """The file that the payloads would make."""
    return tmp_path / "ran"


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    tied = torch.randn(4, 6)
    return {"a.weight": torch.randn(6, 4), "b.weight": tied, "c.weight": tied, "n": torch.ones(2)}


def saved(folder: Path, kind: str, *, legacy: bool = False, **further: object) -> Path:
    """Save a training checkpoint that plain torch.load refuses, and return its path."""
    command = f"touch {folder / 'ran'}"
    args = {
        "plain": PLAIN,
        "system": RunsProgram(command),
        "exec": Executes(command),
        "protocol": None,
    }[kind]
    path = folder / "model.pt"
    content = {"state_dict": {**weights(), **further}, "args": args, "epoch": 3}
    protocol = 4 if kind == "protocol" else 2
    options = {"pickle_protocol": protocol, "_use_new_zipfile_serialization": not legacy}
    torch.save(content, path, **options)
    return path


def written(path: Path, out: Path, form="finalized", **options: object) -> str:
    """Export, compare the forecast of the size, and return the note."""
    with applied(path, RECIPE) as resolution:
        export(resolution, out, form, **options)
        chosen = OutputOptions(form, **options)
        target = OutputPath.of(resolution.checkpoint, out, chosen)
        entries = parts_to_write(resolution, chosen)
        if "tensors_only" not in options:
            assert sizes(resolution, out)[form].nbytes == out.stat().st_size
        return contents_note(resolution, target, form, entries)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize(
    ("kind", "options", "only"),
    [
        ("plain", {}, False),
        ("plain", {"tensors_only": True}, True),
        ("system", {}, True),
        ("exec", {}, True),
        ("system", {"tensors_only": False}, False),
    ],
)
def test_tensors_only_is_the_default_where_a_name_runs_programs(
    tmp_path, mark, kind, options, only, form, legacy
):
    path, out = saved(tmp_path, kind, legacy=legacy), tmp_path / "out.pt"
    note = written(path, out, form, **options)
    assert not mark.exists()
    if form == "finalized" and not only:
        with open_checkpoint(path) as old, open_checkpoint(out) as new:
            assert new.foreign == old.foreign
            assert code_statement(old.foreign) in note
        return
    state = torch.load(out, weights_only=True)
    assert {
        "finalized": {"a.weight", "b.weight", "c.weight", "n"},
        "reparametrized": {
            *(f"{key}.weight_{part}" for key in "abc" for part in ("orig", "mask")),
            "n",
        },
        "masks": {"a.weight", "b.weight"},
    }[form] == state.keys()
    assert ("only the tensors" in note or "plain state dict" in note) == (form != "masks")
    with open_checkpoint(out) as new:
        assert new.foreign == ()
        assert "prune_gui.recipe" in new.metadata
    assert not verify(out).problems
    assert not mark.exists()


def test_the_tensors_are_those_of_the_full_copy(tmp_path):
    path = saved(tmp_path, "plain", sparse=torch.eye(3).to_sparse(), note="text")
    written(path, tmp_path / "all.pt", tensors_only=False)
    written(path, tmp_path / "only.pt", tensors_only=True)
    every = torch.load(tmp_path / "all.pt", weights_only=False)["state_dict"]  # made above
    only = torch.load(tmp_path / "only.pt", weights_only=True)
    assert only.keys() == every.keys() - {"note"}
    for key, tensor in only.items():
        assert torch.equal(tensor.to_dense(), every[key].to_dense()), key
    assert only["b.weight"].data_ptr() == only["c.weight"].data_ptr()


def parameter_with_state(command: str) -> nn.Parameter:
    parameter = nn.Parameter(torch.ones(3))
    parameter.extra = RunsProgram(command)
    return parameter


RARE = {
    "sparse": lambda _: torch.eye(3).to_sparse(),
    "CSR": lambda _: torch.eye(3).to_sparse_csr(),
    "quantized": lambda _: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "state of a parameter": parameter_with_state,
    "repeated view": lambda _: torch.ones(1).expand(5),
    "meta": lambda _: torch.empty(3, device="meta"),
    "array": lambda _: np.ones(3),
    "jagged": lambda _: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["finalized", "reparametrized"])
@pytest.mark.parametrize("kind", RARE)
def test_rare_tensors_become_plain_if_they_are_shown(tmp_path, mark, kind, form):
    path = saved(tmp_path, "system", rare=RARE[kind](f"touch {mark}"))
    written(path, tmp_path / "out.pt", form)
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    with open_checkpoint(path) as checkpoint:
        assert ("rare" in state) == ("rare" in checkpoint.keys) == (kind != "jagged")
    assert not mark.exists()


def test_parameters_and_modules_lose_their_classes(tmp_path):
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    module.args = PLAIN
    torch.save(module, tmp_path / "model.pt")
    written(tmp_path / "model.pt", tmp_path / "out.pt", tensors_only=True)
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    assert [*state] == ["0.weight", "0.bias"]
    assert {type(tensor) for tensor in state.values()} == {torch.Tensor}


def test_a_file_without_code_is_reduced_only_if_asked(tmp_path):
    torch.save({"model": OrderedDict(weights()), "epoch": 3}, tmp_path / "model.pt")
    written(tmp_path / "model.pt", tmp_path / "all.pt")
    assert torch.load(tmp_path / "all.pt", weights_only=True)["epoch"] == 3
    written(tmp_path / "model.pt", tmp_path / "only.pt", tensors_only=True)
    assert torch.load(tmp_path / "only.pt", weights_only=True).keys() == weights().keys()


def test_shards_and_batches_follow_the_same_rule(tmp_path, mark):
    (tmp_path / "shards").mkdir()
    path = saved(tmp_path, "system").rename(tmp_path / "shards" / "pytorch_model-1.bin")
    index = path.with_name("pytorch_model.bin.index.json")
    index.write_text('{"weight_map": {"a.weight": "pytorch_model-1.bin"}}')
    with open_checkpoint(index) as checkpoint:
        assert "posix.system" in checkpoint.foreign
        export(resolve(RECIPE, checkpoint), tmp_path / "out")
    assert "a.weight" in torch.load(tmp_path / "out" / path.name, weights_only=True)
    for tensors_only, kind in ((None, "system"), (True, "plain")):
        path, out = saved(tmp_path, kind), tmp_path / f"{kind}.pt"
        row = prune_file(RECIPE, path, out, OutputOptions(tensors_only=tensors_only), Monitor())
        assert row.error == ""
        assert torch.load(out, weights_only=True).keys() == weights().keys()
    assert not mark.exists()


def test_moments_need_the_other_objects(tmp_path):
    with pytest.raises(CheckpointError, match="with all objects of the input"):
        written(saved(tmp_path, "plain"), tmp_path / "out.pt", tensors_only=True, zero_moments=True)


@pytest.mark.parametrize(
    "kind",
    [
        "exec",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("plain", "system", "protocol")),
    ],
)
def test_the_script_of_a_file_that_names_code_runs_none_of_it(tmp_path, mark, kind):
    path = saved(tmp_path, kind)
    out = tmp_path / "out.safetensors"
    with applied(path, RECIPE) as resolution:
        script = python_script(resolution, out)
        masks = {name: resolution.mask(name) for name in resolution.layers}
    program = tmp_path / "script.py"
    program.write_text(script)
    subprocess.run([sys.executable, program], check=True, timeout=100)
    assert not mark.exists()
    assert "runs no code of the file" in script
    with open_checkpoint(out) as made:
        for name, mask in masks.items():
            assert torch.equal(made.read(name) != 0, mask)


LOADS = re.compile(
    r"(?<![\w.])(?:(?:torch\.jit|pickle|joblib|dill|cloudpickle|marshal|shelve)\.(?:loads?|open)"
    r"|torch\.load|(?:np|numpy)\.load|yaml\.(?:unsafe_|full_)?load)"
    r"\((?:[^()]|\([^()]*\))*\)?"
)
SAFE = re.compile(r"torch\.load\(.*weights_only=True|(?:np|numpy)\.load\((?!.*allow_pickle)", re.S)
HALF_OF_W = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}]}
)
ROOT = Path(prune_gui.__file__).parent
RUNS_OWN_TASKS = {"dask_executor.py"}
"""Modules that unpickle what other processes of the program send."""


def unsafe(text: str) -> list[str]:
    """Return the calls in a text that may run code of a file."""
    loads = [found[0] for found in LOADS.finditer(text)]
    found = [load for load in loads if not SAFE.match(load)]
    return found + re.findall(r"\([^()\n]*weights_only=False", text)


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [
        ('torch.load(folder / "a.pt", map_location="cpu", weights_only=True)["x"]', True),
        ("torch.load(path)", False),
        ("torch.load(path, weights_only=False)", False),
        ("x = torch.jit.load('a.pt')", False),
        ("pickle.load(file)", False),
        ("np.load(path, allow_pickle=True)", False),
        ("np.load(path)", True),
        ("load it with weights_only=False only if you trust it", True),
    ],
)
def test_the_search_finds_unsafe_calls(text, is_safe):
    assert (unsafe(text) == []) == is_safe


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("tensors_only", [False, True])
def test_what_is_written_for_a_file_loads_nothing_unsafely(
    tmp_path, named, nested, legacy, tensors_only
):
    state = {"w": torch.ones(4), **({"args": argparse.Namespace()} if named else {})}
    content = {"state_dict": state, "ema": {"w": torch.zeros(4)}} if nested else state
    path = tmp_path / "model.pt"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(HALF_OF_W, checkpoint)
        target = OutputPath.of(
            checkpoint, tmp_path / "out.pt", OutputOptions(tensors_only=tensors_only)
        )
        texts = [
            python_script(resolution, tmp_path / "out.safetensors"),
            loader_text(checkpoint, target),
            loader_text(checkpoint, target, compact=True),
            loading_code(checkpoint),
            command_line(HALF_OF_W, checkpoint, target.path, None),
            html_page(report_on_files([checkpoint], None, Monitor(), with_folders=False)),
        ]
    assert [call for text in texts for call in unsafe(text)] == []


def test_no_format_document_or_module_has_a_line_that_loads_unsafely():
    texts = {f"format {each.name}": each.load_code for each in FORMATS}
    resources, checkout = resource("guide").parent, Path(__file__).parents[2]
    for folder, pattern in (
        (ROOT, "**/*.py"),
        (resources, "**/*.py"),
        (resources, "**/*.md"),
        (checkout, "*.md"),
        (checkout, "docs/**/*.md"),
    ):
        for path in folder.glob(pattern):
            if path.name not in RUNS_OWN_TASKS:
                texts[str(path)] = path.read_text(encoding="utf-8")
    assert len(texts) > 400
    assert {name: unsafe(text) for name, text in texts.items() if unsafe(text)} == {}
