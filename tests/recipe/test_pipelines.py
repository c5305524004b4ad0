"""The folder of a diffusers pipeline is saved whole, with one of its models pruned."""

import filecmp
import json
import threading

import pytest
import torch
from safetensors.torch import load_file, save_file

import prune_gui
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.exporting import parts_to_write
from prune_gui.recipe.output import OutputOptions, OutputPath

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
