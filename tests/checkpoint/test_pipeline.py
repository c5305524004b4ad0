"""Opening models of diffusers pipelines."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve


def fill(folder, *names, size=1):
    """Write a pipeline of models, each with one tensor that has the name of the model."""
    folder.mkdir(exist_ok=True)
    (folder / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    (folder / "scheduler").mkdir()
    (folder / "scheduler" / "scheduler_config.json").write_text("{}")
    for name in names:
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps({"_class_name": f"{name}Model"}))
        save_file({name: torch.ones(size)}, folder / name / f"{name}.safetensors")
    return folder


@pytest.fixture
def pipeline(tmp_path):
    return fill(tmp_path / "sd", "text_encoder", "unet", "vae")


def test_a_pipeline_opens_its_denoiser_and_lists_the_other_models(pipeline):
    (pipeline / "whole.safetensors").write_bytes(b"")
    with open_checkpoint(pipeline) as opened:
        assert list(opened.tensors) == ["unet"]
        assert opened.path == pipeline / "unet" / "unet.safetensors"
        assert opened.description == "unetModel"
        assert opened.candidates == ("text_encoder", "unet", "vae")
        assert opened.state_dict == "unet"
        (warning,) = opened.warnings
        assert "The others are text_encoder, vae." in warning
        assert "--state" in warning


@pytest.mark.parametrize("place", ["", "unet", "unet/unet.safetensors"])
def test_any_model_opens_by_name_from_any_path_in_the_pipeline(pipeline, place):
    with open_checkpoint(pipeline / place, "vae") as opened:
        assert list(opened.tensors) == ["vae"]
        assert opened.state_dict == "vae"
        assert opened.warnings == ()


def test_a_model_that_is_opened_directly_lists_the_others_as_candidates(pipeline, monkeypatch):
    for place in (pipeline / "vae", pipeline / "vae" / "vae.safetensors"):
        with open_checkpoint(place) as opened:
            assert opened.candidates == ("text_encoder", "unet", "vae")
            assert opened.state_dict == "vae"
            assert opened.warnings == ()
    monkeypatch.chdir(pipeline / "vae")
    with open_checkpoint("vae.safetensors", "unet") as opened:
        assert list(opened.tensors) == ["unet"]


def test_without_a_denoiser_the_largest_model_opens(tmp_path):
    folder = fill(tmp_path / "sd", "a", "c")
    save_file({"b": torch.ones(1000)}, folder / "c" / "c.safetensors")
    with open_checkpoint(folder) as opened:
        assert list(opened.tensors) == ["b"]


def test_a_pipeline_of_one_model_opens_without_a_remark(tmp_path):
    with open_checkpoint(fill(tmp_path / "sd", "transformer")) as opened:
        assert opened.candidates == ("transformer",)
        assert opened.warnings == ()


def test_variants_and_shards_of_a_model_are_found(pipeline):
    save_file({"half": torch.ones(1)}, pipeline / "unet" / "unet.fp16.safetensors")
    with open_checkpoint(pipeline) as opened:
        assert list(opened.tensors) == ["unet"]
        assert "The others are unet.fp16.safetensors." in opened.warnings[1]
    index = {"weight_map": {"vae": "vae.safetensors"}}
    (pipeline / "vae" / "model.safetensors.index.json").write_text(json.dumps(index))
    with open_checkpoint(pipeline, "vae") as opened:
        assert opened.path.name == "model.safetensors.index.json"
        assert opened.state_dict == "vae"


def test_the_state_dicts_of_a_torch_file_take_precedence_over_models(pipeline):
    states = {"ema": {"w": torch.ones(2)}, "model": {"w": torch.ones(2), "b": torch.ones(1)}}
    torch.save(states, pipeline / "unet" / "training.ckpt")
    with open_checkpoint(pipeline / "unet" / "training.ckpt") as opened:
        assert opened.candidates == ("ema", "model")
    with open_checkpoint(pipeline / "unet" / "training.ckpt", "ema") as opened:
        assert opened.state_dict == "ema"


@pytest.mark.parametrize("name", ["scheduler", "../sd/unet", "", "unet.safetensors"])
def test_a_name_that_is_not_a_model_of_the_pipeline_is_refused(pipeline, name):
    with pytest.raises(CheckpointError, match="Choose one of text_encoder, unet, vae"):
        open_checkpoint(pipeline, name)


def test_a_pipeline_index_without_models_is_ignored(tmp_path):
    folder = fill(tmp_path / "sd")
    with pytest.raises(CheckpointError, match="without a checkpoint"):
        open_checkpoint(folder)
    save_file({"w": torch.ones(1)}, folder / "w.safetensors")
    with open_checkpoint(folder) as opened:
        assert list(opened.tensors) == ["w"]


def test_a_pruned_model_of_a_pipeline_is_saved_like_any_checkpoint(tmp_path):
    folder, out = fill(tmp_path / "sd", "unet", "vae", size=4), tmp_path / "pruned.safetensors"
    step = {"method": "l1_unstructured", "targets": ["*"], "amount": 3}
    with open_checkpoint(folder) as opened:
        export(resolve(Recipe(steps=[step]), opened), out)
    assert load_file(out)["unet"].count_nonzero() == 1
