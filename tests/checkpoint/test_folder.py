"""Opening folders, pipelines and files: quickly, whatever is raised and whatever is beside."""

import json
import os
import tracemalloc

import pytest
import safetensors.torch
import torch
from safetensors.torch import save_file
from system_faults import raising

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.sharded import index as shard_index
from prune_gui.checkpoint.sharded.index import index_with
from prune_gui.errors import Cancelled, CheckpointError

PREFERRED = [
    "model.safetensors.index.json",
    "model.fp16.safetensors",
    "other.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "training_args.pt",
]


def fill(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        path = folder / name
        if name.endswith(".json"):
            shard = f"{name}-1{'.bin' if '.bin' in name else '.safetensors'}"
            path.write_text(json.dumps({"weight_map": {name: shard}}))
            (torch.save if ".bin" in name else save_file)({name: torch.ones(1)}, folder / shard)
        elif name.endswith(".safetensors"):
            save_file({name: torch.ones(1)}, path)
        else:
            torch.save({name: torch.ones(1)}, path)


def refusal(folder):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    return str(caught.value)


@pytest.mark.parametrize("wanted", range(len(PREFERRED)))
def test_the_most_preferred_file_is_opened(tmp_path, wanted):
    fill(tmp_path, *PREFERRED[wanted:])
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "._model.safetensors").write_text("x")
    (tmp_path / "model-dir.safetensors").mkdir()
    with open_checkpoint(tmp_path) as opened:
        assert list(opened.tensors) == [PREFERRED[wanted]]
        assert opened.path == tmp_path / PREFERRED[wanted]


@pytest.mark.parametrize(
    "names",
    [
        ["model.safetensors.index.bf16.json", "model.safetensors.index.fp16.json"],
        ["model.bf16.safetensors", "model.fp16.safetensors"],
        ["a.safetensors", "b.safetensors"],
        ["llama-3.safetensors", "llama-3.1.safetensors"],
        ["a.bin.index.json", "b.bin.index.json"],
        ["a.pt", "b.ckpt"],
    ],
)
def test_several_equally_preferred_files_are_refused(tmp_path, names):
    fill(tmp_path, *names)
    message = refusal(tmp_path)
    assert "several checkpoints" in message
    assert all(name in message for name in names)


@pytest.mark.parametrize(
    ("plain", "variant"),
    [
        ("model.safetensors", "model.fp16.safetensors"),
        ("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.non_ema.safetensors"),
        ("model.safetensors.index.json", "model.safetensors.index.bf16.json"),
        ("model.safetensors.index.json", "model.fp16.safetensors"),
        ("pytorch_model.bin", "pytorch_model.fp16.bin"),
    ],
)
def test_the_plain_one_of_several_variants_is_opened_and_the_others_are_named(
    tmp_path, plain, variant
):
    fill(tmp_path, plain, variant)
    with open_checkpoint(tmp_path) as opened:
        assert opened.path.name == plain
        assert f"The others are {variant}." in opened.warnings[-1]


def test_a_folder_without_a_checkpoint_is_refused_without_a_search_in_inner_folders(tmp_path):
    fill(tmp_path / "checkpoints", "model.safetensors")
    assert "is a folder without a checkpoint" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"architectures": ["BertModel"], "model_type": "bert", "torch_dtype": "float32"},
            "BertModel, bert, float32",
        ),
        (
            {"_class_name": "UNet2DConditionModel", "dtype": "bfloat16"},
            "UNet2DConditionModel, bfloat16",
        ),
        ({"model_type": "<b>bold</b>", "architectures": "Net", "dtype": 3}, "Net"),
        ({"model_type": "x" * 61, "architectures": ["a\nb", "\u202e"]}, ""),
        ({"architectures": ["A", "B", "C"]}, "A, B"),
        ({}, ""),
    ],
)
def test_a_config_beside_the_weights_describes_them(tmp_path, config, says):
    fill(tmp_path, "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with open_checkpoint(tmp_path) as opened:
        assert opened.description == says
        assert opened.warnings == ()


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "\xff", '{"a":' + "9" * 5000 + "}"])
def test_an_invalid_config_gives_only_a_remark(tmp_path, text):
    fill(tmp_path, "model.safetensors.index.json")
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with open_checkpoint(tmp_path) as opened:
        assert opened.description == ""
        assert opened.warnings == ("config.json in the same folder is invalid and is ignored.",)


def fill_pipeline(folder, *names, size=1):
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
    return fill_pipeline(tmp_path / "sd", "text_encoder", "unet", "vae")


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


@pytest.mark.parametrize("place", ["", "unet", "unet/unet.safetensors", "vae", "."])
def test_any_model_opens_by_name_from_any_path_in_the_pipeline(pipeline, monkeypatch, place):
    monkeypatch.chdir(pipeline / "vae")
    wanted = None if place == "vae" else "vae"
    with open_checkpoint("vae.safetensors" if place == "." else pipeline / place, wanted) as opened:
        assert list(opened.tensors) == ["vae"]
        assert opened.candidates == ("text_encoder", "unet", "vae")
        assert opened.state_dict == "vae"
        assert opened.warnings == ()


def test_without_a_denoiser_the_largest_model_opens(tmp_path):
    folder = fill_pipeline(tmp_path / "sd", "a", "c")
    save_file({"b": torch.ones(1000)}, folder / "c" / "c.safetensors")
    with open_checkpoint(folder) as opened:
        assert list(opened.tensors) == ["b"]


def test_a_pipeline_of_one_model_opens_without_a_remark(tmp_path):
    with open_checkpoint(fill_pipeline(tmp_path / "sd", "transformer")) as opened:
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
    folder = fill_pipeline(tmp_path / "sd")
    with pytest.raises(CheckpointError, match="without a checkpoint"):
        open_checkpoint(folder)
    save_file({"w": torch.ones(1)}, folder / "w.safetensors")
    with open_checkpoint(folder) as opened:
        assert list(opened.tensors) == ["w"]


INDEX = "model.safetensors.index.json"
NEIGHBOURS = (INDEX, "config.json", "model_index.json")
posix_only = pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and devices")
HARMLESS = {
    "fifo": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": lambda path: path.mkdir(),
}


def test_the_content_decides_the_format_not_the_suffix(tmp_path):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.bin")
    torch.save({"a": torch.ones(2)}, tmp_path / "m.weights")
    with open_checkpoint(tmp_path / "m.bin") as one, open_checkpoint(tmp_path / "m.weights") as two:
        assert (one.format, two.format) == ("safetensors", "torch")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied. Check its name and perm"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (FileNotFoundError(2, "No such file"), "does not exist"),
    ],
)
def test_a_file_that_cannot_be_read_or_disappears_gives_a_clear_error(
    tmp_path, monkeypatch, error, words
):
    torch.save({"a": torch.ones(2)}, tmp_path / "m.pt")
    monkeypatch.setattr("prune_gui.checkpoint.source.open_regular", raising(error))
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(tmp_path / "m.pt")


@pytest.mark.parametrize("error", [RuntimeError("?"), KeyError("\ud800"), RecursionError()])
@pytest.mark.parametrize(
    "place",
    [
        "opening.recognized",
        "opening.look_around",
        "opening.find_component",
        "opening.read_index",
        "safetensors.format.read_header",
        "base.parameters",
        "base.module_types_around",
        "spans.MappedCheckpoint._tensor",
    ],
)
def test_what_no_parser_expects_is_a_refusal_and_logged(
    tmp_path, monkeypatch, caplog, place, error
):
    path = tmp_path / "m.safetensors"
    safetensors.torch.save_file({"a": torch.ones(2)}, path)
    if "index" in place:
        path = tmp_path / "m.safetensors.index.json"
        path.write_text('{"weight_map": {"a": "m.safetensors"}}')
    with monkeypatch.context() as patch, pytest.raises(CheckpointError) as caught:  # noqa: PT012
        patch.setattr(f"prune_gui.checkpoint.{place}", raising(error))
        with open_checkpoint(path) as checkpoint:
            assert checkpoint.module_types
            checkpoint.read("a")
    assert f"{path.name} cannot be read: it is damaged, or of a form" in str(caught.value)
    assert caught.value.__cause__ is error
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.exc_info[1] is error


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), Cancelled()])
def test_what_is_no_fault_of_the_file_is_raised_unchanged(tmp_path, monkeypatch, error):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    monkeypatch.setattr("prune_gui.checkpoint.opening.recognized", raising(error))
    with pytest.raises(type(error)) as caught:
        open_checkpoint(tmp_path / "m.safetensors")
    assert caught.value is error


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model" / "model.safetensors"
    path.parent.mkdir()
    save_file({"w": torch.ones(1)}, path)
    return path


@posix_only
@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_no_file_beside_a_checkpoint_is_not_read(checkpoint, name, above, kind):
    HARMLESS[kind]((checkpoint.parent.parent if above else checkpoint.parent) / name)
    with open_checkpoint(checkpoint) as opened:
        assert list(opened.tensors) == ["w"]


@posix_only
def test_an_index_that_is_a_fifo_is_refused_in_one_line(checkpoint):
    os.mkfifo(checkpoint.parent / INDEX)
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint(checkpoint.parent / INDEX)


def test_a_huge_neighbour_takes_little_memory(checkpoint):
    for name in NEIGHBOURS:
        with (checkpoint.parent / name).open("wb") as file:
            file.truncate(1 << 30)
    tracemalloc.start()
    try:
        with open_checkpoint(checkpoint) as opened:
            assert list(opened.tensors) == ["w"]
        assert tracemalloc.get_traced_memory()[1] < 2 * shard_index.MAX_INDEX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "content", "forbidden"),
    [(INDEX, f"[{'[], ' * 1000}0]", "_parse"), ("model.bin.index.json", "{}", "read_regular")],
    ids=["does not mention the file", "of another format"],
)
def test_an_index_of_other_files_is_not_parsed(checkpoint, monkeypatch, name, content, forbidden):
    (checkpoint.parent / name).write_text(content)
    monkeypatch.setattr(shard_index, forbidden, lambda *_: pytest.fail("it was used"))
    assert index_with(checkpoint) is None


def test_only_the_first_few_indexes_are_read(checkpoint, monkeypatch):
    for number in range(100):
        (checkpoint.parent / f"{number:02}.safetensors.index.json").write_text("{}")
    read = []
    monkeypatch.setattr(shard_index, "read_regular", lambda path, _: read.append(path) or b"{}")
    assert index_with(checkpoint) is None
    assert len(read) == shard_index.MAX_INDEXES_READ


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_index_that_lists_a_file_is_found_in_either_spelling(checkpoint, ascii_only):
    shard = checkpoint.rename(checkpoint.with_name("模型.safetensors"))
    index = checkpoint.parent / INDEX
    content = json.dumps({"weight_map": {"w": shard.name}}, ensure_ascii=ascii_only)
    index.write_text(content, encoding="utf-8")
    found = index_with(shard)
    assert found is not None
    assert found.path == index


def test_an_index_with_too_many_lists_is_refused_before_it_is_parsed(checkpoint):
    index = checkpoint.parent / INDEX
    index.write_bytes(b"[" + b"[]," * shard_index.MAX_BRACKETS + b"0]")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="too many lists"):
            open_checkpoint(index)
        assert tracemalloc.get_traced_memory()[1] < 3 * shard_index.MAX_INDEX_BYTES
    finally:
        tracemalloc.stop()
