"""The files beside the weights: folders of models, and of pipelines, are saved whole."""

import filecmp
import json
import os
import sys
import threading
from pathlib import Path

import pytest
import torch
from applied import applied
from compact_networks import CONFIG, ffn_architecture, neurons, resolved, saved_mlp, with_plan
from safetensors.torch import load_file, save_file
from sharded_files import INDEX, write_shards
from written_files import contents

import prune_gui
from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.model_files import find_model_files
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.recipe import FORMS, Recipe, export
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.exporting import parts_to_write
from prune_gui.recipe.extra_files import model_files_note
from prune_gui.recipe.output import OutputOptions, OutputPath

HALF = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5}])
NEEDED = {
    "config.json": b'{"model_type": "x"}',
    "generation_config.json": b"{}",
    "vocab.txt": b"a\nb\n",
    "merges.txt": b"#version: 0.2\na b\n",
    "spiece.model": b"\x0a\x00",
    "source.spm": b"\x0a",
    "bpe.codes": b"a b\n",
    "tokenizer.json": b"{}",
    "added_tokens.json": b"{}",
    "chat_template.jinja": b"{{ x }}",
    "preprocessor_config.json": b"{}",
    "processor_config.json": b"{}",
    "adapter_config.json": b"{}",
    "modules.json": b"[]",
    "LICENSE": b"free",
    "1_Pooling/config.json": b"{}",
    "2_Dense/config.json": b"{}",
    "2_Dense/model.safetensors": b"weights of a layer",
    "additional_chat_templates/tool.jinja": b"{{ y }}",
}
OTHERS = {
    ".hidden.json": b"no",
    "README.md": b"no",
    "optimizer.pt": b"no",
    "training_args.bin": b"no",
    "onnx/model.onnx": b"no",
    "nested/inner/config.json": b"no",
}
CODE = {
    "modeling_x.py": b"code",
    "run.sh": b"code",
    "setup.exe": b"code",
    "start.BAT": b"code",
    "lib.so": b"code",
    "lib.so.1": b"code",
    "tokens.PY": b"code",
    "notebook.ipynb": b"code",
    "tool": b"#!/bin/sh",
    "marked.json": b"{}",
    "3_Code/layer.py": b"code",
}
"""Of which those without a suffix of code have the executable bit."""


def write_files(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.fixture(params=["one file", "shards"])
def model(request, tmp_path):
    folder = tmp_path / "in"
    tensors = {f"{name}.weight": torch.randn(4, 4) for name in "abc"}
    if request.param == "shards":
        write_shards(folder, {"m-1.safetensors": tensors, "m-2.safetensors": {"d": torch.ones(2)}})
    else:
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
    write_files(folder, NEEDED | OTHERS | CODE)
    for name in ("tool", "marked.json"):
        (folder / name).chmod(0o755)
    return folder


def beside_weights(folder):
    """Return the files beside the weights."""
    weights = {INDEX, "m-1.safetensors", "m-2.safetensors", "model.safetensors", "load_model.py"}
    return {name: file for name, file in contents(folder).items() if name not in weights}


def saved(source, out, form="finalized", **options):
    with applied(source, HALF) as resolution:
        export(resolution, out, form, **options)
        chosen = OutputOptions(form, **options)
        target = OutputPath.of(resolution.checkpoint, out, chosen)
        return contents_note(resolution, target, form, (), chosen)


posix = pytest.mark.skipif(os.name != "posix", reason="files have no executable bit")


@posix
@pytest.mark.parametrize("form", ["finalized", "reparametrized"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NEEDED),
        ({"copy_code": True}, NEEDED | CODE),
        ({"model_files": False}, {}),
        ({"model_files": False, "copy_code": True}, {}),
    ],
)
def test_a_folder_gets_what_programs_need_and_code_only_on_request(
    model, tmp_path, form, options, expected
):
    note = saved(model, tmp_path / "out", form, **options)
    assert beside_weights(tmp_path / "out") == expected
    assert (tmp_path / "out" / "load_model.py").exists() == (form == "reparametrized")
    assert "not copied: nested, onnx" in note or not expected
    assert ("Code is not copied: " in note) == ("modeling_x.py" not in expected)
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or not os.access(path, os.X_OK)


@posix
def test_masks_have_no_model_files(tmp_path):
    folder = tmp_path / "in"
    write_shards(folder, {"m-1.safetensors": {"a.weight": torch.randn(4, 4)}})
    write_files(folder, NEEDED)
    note = saved(folder, tmp_path / "out", "masks")
    assert beside_weights(tmp_path / "out") == {}
    assert note == "Masks are no model: config and tokenizer files are not copied."


def test_the_mode_tells_nothing_where_the_weights_are_executable_too(model):
    weights = next(iter(model.glob("*.safetensors*")))
    for path in model.rglob("*"):
        path.chmod(0o755)
    assert "config.json" in find_model_files(weights).names


@pytest.mark.parametrize(
    ("name", "is_free"),
    [
        ("load_model.py", False),
        ("Load_Model.py", False),
        ("load_model.cpython-311-x86_64-linux-gnu.so", False),
        ("load_model.pyc", False),
        ("load_model/__init__.py", False),
        ("load_modeling.py", True),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_no_code_takes_the_name_of_the_loader_script(tmp_path, name, is_free, form):
    source = saved_mlp(tmp_path / "in")
    write_files(source.folder, {name: b"of the author"})
    with open_checkpoint(source.folder) as checkpoint:
        steps = [*neurons(0, [0, 1, 2]), *neurons(2, [7])]
        resolution = with_plan(resolved(checkpoint, steps), ffn_architecture(config=CONFIG))
        if form == "masks":
            with pytest.raises(CheckpointError, match="no suffix"):
                export(resolution, tmp_path / "out", form, copy_code=True)
            return
        note = model_files_note(checkpoint, OutputPath.of(checkpoint, tmp_path / "out"), form, None)
        assert (name in note) != is_free
        export(resolution, tmp_path / "out", form, copy_code=True)
    found = {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")
    }
    assert (name in found) == (is_free or (name == "load_model.py" and form != "finalized"))
    if "load_model.py" in found:
        text = (tmp_path / "out" / "load_model.py").read_text()
        assert text.startswith('"""Written by Prune GUI.')


@pytest.mark.parametrize(
    ("config", "is_needed"),
    [({"auto_map": {"AutoModel": "modeling_x.X"}}, True), ({"model_type": "bert"}, False)],
)
def test_the_note_says_if_the_model_needs_its_code(model, tmp_path, config, is_needed):
    (model / "config.json").write_text(json.dumps(config))
    assert ("The model loads only with its code" in saved(model, tmp_path / "a")) == is_needed
    assert "loads only with" not in saved(model, tmp_path / "b", copy_code=True)


@pytest.mark.parametrize(
    ("name", "has_config", "message"),
    [
        ("out", True, None),
        ("out/", True, None),
        ("out/", False, None),
        ("there", False, None),
        ("out", False, "no suffix of a known format"),
        ("out.xyz", False, "no suffix of a known format"),
    ],
)
def test_a_single_file_is_saved_to_a_folder(tmp_path, name, has_config, message):
    (tmp_path / "there").mkdir()
    write_files(tmp_path / "in", {"config.json": b"{}"} if has_config else {"notes.txt": b"mine"})
    save_file({"a.weight": torch.randn(4, 4)}, tmp_path / "in" / "net.safetensors")
    out = f"{tmp_path}/{name}"
    if message:
        with pytest.raises(CheckpointError, match=message):
            saved(tmp_path / "in", out)
        return
    saved(tmp_path / "in", out)
    names = ["config.json", "net.safetensors"] if has_config else ["net.safetensors"]
    assert sorted(path.name for path in Path(out).iterdir()) == names
    assert int((load_file(f"{out}/net.safetensors")["a.weight"] == 0).sum()) == 8


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_links_out_of_the_folder_and_large_files_are_named(model, tmp_path, monkeypatch):
    (tmp_path / "secret.json").write_text("no")
    (model / "link.json").symlink_to(tmp_path / "secret.json")
    (model / "1_Pooling" / "config.json").unlink()
    (model / "1_Pooling" / "config.json").symlink_to(tmp_path / "secret.json")
    monkeypatch.setattr("prune_gui.checkpoint.model_files.MAX_FILE_BYTES", 19)
    note = saved(model, tmp_path / "out")
    names = set(beside_weights(tmp_path / "out"))
    assert names.isdisjoint({"link.json", "1_Pooling/config.json"})
    assert "not copied: link.json, 1_Pooling, nested, onnx" in note


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 5), ("MAX_NBYTES", 60)])
def test_many_files_are_named_and_not_copied(model, tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(f"prune_gui.checkpoint.model_files.{limit}", value)
    saved(model, tmp_path / "out")
    copied, beside = beside_weights(tmp_path / "out"), find_model_files(next(model.glob("m*.s*")))
    assert 0 < len(copied) < len(NEEDED)
    assert {*copied, *beside.left_out} >= NEEDED.keys()


WEIGHTS = "diffusion_pytorch_model.safetensors"
TABLE = """
family: small
spaces:
  channels:
    title: channels
    groups:
      - label: up
        size: 4
        members: [{name: up.weight}, {name: down.weight, dim: 1, role: consumes}]
"""


@pytest.fixture
def pipeline(tmp_path):
    folder = tmp_path / "sd"
    for name in ("scheduler", "tokenizer", "unet", "vae"):
        (folder / name).mkdir(parents=True)
        config = json.dumps({"_class_name": name}, indent=2)
        (folder / name / "config.json").write_text(f"{config}\n")
    (folder / "model_index.json").write_text('{"_class_name": "Pipeline"}')
    (folder / "tokenizer" / "merges.txt").write_text("a b\n")
    for name in ("unet", "vae"):
        tensors = {"up.weight": torch.rand(4, 3), "down.weight": torch.rand(2, 4)}
        save_file(tensors, folder / name / WEIGHTS)
    (tmp_path / "table.yaml").write_text(TABLE)
    return folder


def save(path, out, state=None, **options):
    """Prune half of the channels of a model, and return the note on what is saved."""
    step = {"method": "coupled", "targets": ["*"], "space": "channels", "amount": 0.5}
    fields = {"version": 1, "steps": [step], "table": str(out.parent / "table.yaml")}
    with prune_gui.open_checkpoint(path, state) as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe.model_validate(fields), checkpoint)
        prune_gui.export(resolution, out, **options)
        chosen = OutputOptions(**{"form": "finalized"} | options)
        target = OutputPath.of(checkpoint, out, chosen)
        assert target.file.is_file()
        entries = parts_to_write(resolution, chosen)
        return contents_note(resolution, target, chosen.form, entries, chosen)


def differing(folder, other):
    """Return the names of the files that two folders do not share."""
    names = {
        path.relative_to(one).as_posix()
        for one in (folder, other)
        for path in one.rglob("*")
        if path.is_file()
    }
    return set(filecmp.cmpfiles(folder, other, names, shallow=False)[0]) ^ names


def test_all_but_the_pruned_model_is_copied_unchanged(pipeline, tmp_path):
    note = save(pipeline, tmp_path / "out")
    assert differing(pipeline, tmp_path / "out") == {f"unet/{WEIGHTS}"}
    assert (load_file(tmp_path / "out" / "unet" / WEIGHTS)["up.weight"] == 0).sum() == 6
    assert "with 'unet': model_index.json, scheduler, tokenizer, vae." in note


def test_the_compact_form_has_its_loader_beside_the_model(pipeline, tmp_path):
    save(pipeline, tmp_path / "out", "vae", form="compact")
    script = "vae/load_diffusion_pytorch_model.py"
    assert differing(pipeline, tmp_path / "out") == {f"vae/{WEIGHTS}", script}
    assert load_file(tmp_path / "out" / "vae" / WEIGHTS)["up.weight"].shape == (2, 3)


def test_a_model_that_is_opened_by_itself_is_saved_alone(pipeline, tmp_path):
    save(pipeline / "unet", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"config.json", WEIGHTS}


def test_code_hidden_files_and_links_out_of_the_folder_are_not_copied(pipeline, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (pipeline / "vae" / "notes.txt").symlink_to(tmp_path / "secret.txt")
    (pipeline / "pipeline.py").write_text("print('runs')")
    (pipeline / ".cache").write_text("")
    note = save(pipeline, tmp_path / "out")
    left_out = {".cache", "pipeline.py", "vae/notes.txt"}
    assert differing(pipeline, tmp_path / "out") == {f"unet/{WEIGHTS}"} | left_out
    assert "not copied: pipeline.py, vae/notes.txt." in note
    save(pipeline, tmp_path / "with", copy_code=True)
    assert (tmp_path / "with" / "pipeline.py").is_file()


def test_a_pipeline_is_replaced_only_on_request_and_never_with_other_files(pipeline, tmp_path):
    save(pipeline, tmp_path / "out", form="compact")
    with pytest.raises(CheckpointError, match="is not empty"):
        save(pipeline, tmp_path / "out")
    save(pipeline, tmp_path / "out", overwrite=True)
    assert differing(pipeline, tmp_path / "out") == {f"unet/{WEIGHTS}"}
    (tmp_path / "out" / "vae" / "mine.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"not in the pipeline: vae/mine.txt\. Choose"):
        save(pipeline, tmp_path / "out", overwrite=True)


def test_cancelling_leaves_nothing(pipeline, tmp_path):
    before, cancel = set(tmp_path.iterdir()), threading.Event()
    with pytest.raises(Cancelled):
        save(pipeline, tmp_path / "out", progress=lambda *_: cancel.set(), cancel=cancel)
    assert set(tmp_path.iterdir()) == before
