"""Files in the shapes that training libraries save: opened, finalized, and loaded by their code."""

import argparse
import collections
import datetime as dt
import enum
import functools
import json
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from command_line import prune_gui
from torch import nn

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError, StepError
from prune_gui.evaluation.trials import TARGETS, groups_of
from prune_gui.recipe import Recipe, export, patterns_for, resolve
from prune_gui.recipe.compaction.plan import check_source
from prune_gui.recipe.patterns import match_recipe
from prune_gui.session import ModuleIndex

LEGACY = {"_use_new_zipfile_serialization": False}
RECIPE = Recipe.model_validate(
    {"version": 1, "steps": [{"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}]}
)


class Stage(enum.Enum):
    WARM = "warm"


class AttributeDict(dict[str, object]):
    def __getattr__(self, key: str) -> object:
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error


class Block(nn.Module):
    """A block with a buffer that is not saved in the state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.act = nn.functional.silu
        self.register_buffer("grid", torch.arange(4.0), persistent=False)


class Network(nn.Module):
    """A network with tied and recurrent weights, an own parameter and a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.embedding = nn.Embedding(9, 4)
        self.lstm = nn.LSTM(4, 4, 2, bidirectional=True)
        self.scale = nn.Parameter(torch.ones(4))
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight
        self.statistics = torch.ones(3)
        self.stage = Stage.WARM

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.embedding(values) * self.scale


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model


def network() -> Network:
    torch.manual_seed(0)
    return Network()


def settings() -> dict[str, object]:
    """Return what trainers save beside the weights."""
    return {
        "epoch": 3,
        "best_fitness": np.float64(0.5),
        "hyper_parameters": AttributeDict(lr=np.float32(0.1), stage=Stage.WARM),
        "args": argparse.Namespace(path=PurePosixPath("a"), act=nn.functional.gelu),
        "callbacks": {"EarlyStopping": {"wait": 0, "best": torch.tensor(1.0)}},
        "rng": np.random.RandomState(0).get_state(),
        "scheduler": functools.partial(torch.optim.lr_scheduler.StepLR, step_size=3),
        "date": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        "history": collections.defaultdict(list, loss=[1.0]),
    }


SHAPES = {
    "a module": network,
    "a module of torch": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
    "modules and settings": lambda: {
        **settings(),
        "model": network().half(),
        "ema": nn.Linear(2, 2),
    },
    "a state dict and settings": lambda: {**settings(), "state_dict": network().state_dict()},
    "a parallel module": lambda: nn.DataParallel(network()),
    "an averaged module": lambda: torch.optim.swa_utils.AveragedModel(network()),
    "a graph module": lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU())),
    "an object with a module": lambda: {"trainer": Trainer(network())},
    "a list": lambda: [network().state_dict(), Stage.WARM],
    "a tuple": lambda: (network(), {"lr": 0.1}),
}


def state_at(content: object, root: tuple[str | int, ...]) -> dict[str, torch.Tensor]:
    """Return the state dict at a path, with the tensors of the content itself."""
    for part in root:
        is_item = isinstance(content, dict | list | tuple)
        content = content[part] if is_item else getattr(content, part)
    return content.state_dict() if isinstance(content, nn.Module) else content


def other_records(path: Path) -> dict[str, bytes]:
    """Return the records of an archive that are not storages, by name."""
    with zipfile.ZipFile(path) as archive:
        records = {name.partition("/")[2]: name for name in archive.namelist()}
        return {
            key: archive.read(name) for key, name in records.items() if not key.startswith("data/")
        }


@pytest.mark.parametrize("options", [{}, LEGACY, {"pickle_protocol": 4}], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_owner_loads_the_pruned_file_with_exactly_the_masks_applied(tmp_path, shape, options):
    path, out = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save(SHAPES[shape](), path, **options)
    load = functools.partial(torch.load, weights_only=False, map_location="cpu")
    content = load(path)
    with open_checkpoint(path) as opened:
        expected = state_at(content, opened.root)
        names = {alias for info in opened.tensors.values() for alias in (info.name, *info.aliases)}
        assert names == expected.keys()
        resolution = resolve(RECIPE, opened)
        export(resolution, out)
        for name in resolution.layers:
            expected[name].detach().masked_fill_(~resolution.mask(name), 0)
        result = state_at(load(out), opened.root)
    assert list(result) == list(expected)
    assert [name for name in result if not result[name].equal(expected[name])] == []


@pytest.mark.real
def test_a_real_lightning_file_with_omegaconf_is_pruned_without_omegaconf(real_models, tmp_path):
    path, out = real_models / "pesto/mir-1k_g7.ckpt", tmp_path / "out.ckpt"
    with open_checkpoint(path) as opened:
        assert "omegaconf.listconfig.ListConfig" in opened.foreign
        assert (opened.state_dict, len(opened.tensors)) == ("state_dict", 22)
        resolution = resolve(RECIPE, opened)
        export(resolution, out)
        with open_checkpoint(out) as pruned:
            for name in opened.tensors:
                kept = resolution.mask(name) if name in resolution.layers else True
                assert pruned.read(name).equal(opened.read(name) * kept)
    assert other_records(out).items() >= other_records(path).items()


WEIGHTS = ["conv.weight", "bn.weight", "bn.bias", "q.weight"]
STATISTICS = ["bn.running_mean", "bn.running_var"]
LEFT_OUT = [*STATISTICS, "q.weight_scale"]


@pytest.fixture
def checkpoint(on_disk):
    """Return a checkpoint with a batch norm and a quantized matrix."""
    state = {"conv.weight": torch.randn(8, 4, 3, 3)}
    state |= {f"bn.{key}": torch.rand(8) for key in ("weight", "bias")}
    state |= {name: torch.rand(8) + 1 for name in STATISTICS}
    state |= {
        "q.weight": (torch.randn(8, 8) * 9).to(torch.float8_e4m3fn),
        "q.weight_scale": torch.rand(8, 1),
        "packed.qweight": torch.ones(2, 8, dtype=torch.int32),
        "packed.qzeros": torch.ones(1, 1, dtype=torch.int32),
        "packed.g_idx": torch.arange(16),
    }
    return on_disk(state)


def resolution_of(checkpoint, *targets, **fields):
    step = {"method": "l1_unstructured", "targets": list(targets), "amount": 0.5}
    return resolve(Recipe.model_validate({"steps": [step], **fields}), checkpoint)


TARGETED = {
    ("*",): WEIGHTS,
    ("!packed.*",): WEIGHTS,
    ("bn.*",): ["bn.weight", "bn.bias"],
    ("*.bias", "bn.running_?ar"): ["bn.bias"],
    ("bn.running_var",): ["bn.running_var"],
    ("[b]n.running_var",): ["bn.running_var"],
    ("*", "bn.running_var"): [*WEIGHTS, "bn.running_var"],
    ("* dims=1",): ["bn.weight", "bn.bias", *STATISTICS],
    ("*running* dtype:float32",): STATISTICS,
    ("type:BatchNorm",): ["bn.weight", "bn.bias", *STATISTICS],
    ("dims>1",): ["conv.weight", "q.weight", "q.weight_scale"],
    ("!dims<2",): ["conv.weight", "q.weight"],
    ("size>0", "!bn.*"): ["conv.weight", "q.weight", "q.weight_scale"],
}


@pytest.mark.parametrize("targets", TARGETED)
def test_targets_are_the_same_everywhere(checkpoint, targets):
    resolution = resolution_of(checkpoint, *targets)
    assert sorted(resolution.outcomes[0].pruned) == sorted(TARGETED[targets])
    (match,) = match_recipe(resolution.recipe, checkpoint)
    assert sorted(match.targets) == sorted(TARGETED[targets])
    groups = groups_of(checkpoint, targets, None)
    assert sorted(groups) == sorted(TARGETED[targets])
    patterns = patterns_for(TARGETED[targets], checkpoint.tensors.values())
    again = resolution_of(checkpoint, *patterns)
    assert sorted(again.outcomes[0].pruned) == sorted(TARGETED[targets])


def test_default_targets_are_weights(checkpoint):
    assert sorted(groups_of(checkpoint, TARGETS, None)) == ["conv.weight", "q.weight"]


NOTES = {
    ("*",): "2 running statistics, 1 scale were left out; name them exactly to prune them",
    ("bn.*",): "2 running statistics were left out; name them exactly to prune them",
    ("q.*",): "1 scale was left out; name it exactly to prune it",
    ("*.weight",): "",
    ("bn.weight", "bn.running_*", "bn.running_var"): (
        "1 running statistic was left out; name it exactly to prune it"
    ),
    ("bn.* dims=1",): "",
}


@pytest.mark.parametrize("targets", NOTES)
def test_the_note_of_a_step_counts_what_was_left_out(checkpoint, targets):
    notes = resolution_of(checkpoint, *targets).outcomes[0].notes
    assert notes.get("", "") == NOTES[targets]


def test_the_note_of_a_step_says_that_quantized_tensors_stay(checkpoint):
    notes = resolution_of(checkpoint, "*").outcomes[0].notes
    assert notes["packed.qweight"] == "quantized; it cannot be pruned and stays unchanged"


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["*running*"], r"\*running\* match no weights, only 2 running statistics. Name them"),
        (["packed.*"], "packed.qweight cannot be pruned: quantized"),
        (["none*"], r"no parameter matches none\*"),
    ],
)
def test_a_step_without_weights_says_what_its_patterns_match(checkpoint, targets, message):
    with pytest.raises(StepError, match=message):
        resolution_of(checkpoint, *targets)


def test_protection_and_amounts_by_pattern_are_of_every_kind(checkpoint):
    with pytest.raises(StepError, match="running_var is protected"):
        resolution_of(checkpoint, "bn.running_var", protect=["bn.*"])
    step = {"method": "l1_unstructured", "targets": ["bn.running_var"], "amount": 0.5}
    recipe = Recipe.model_validate({"steps": [{**step, "amounts": {"bn.*": 0.25}}]})
    assert resolve(recipe, checkpoint).counts["bn.running_var"] == (2, 8)


def test_a_selected_module_stands_for_its_weights(checkpoint):
    index = ModuleIndex(checkpoint.tensors.values())
    every = index.matches("")

    def selected(path):
        return index.selected_parameters(index.nodes_of(path), every)

    assert selected("bn") == {"bn.weight", "bn.bias"}
    assert selected("q") == {"q.weight"}
    assert selected("bn.running_var") == {"bn.running_var"}
    assert index.selected_parameters([index[0]], every) == {"conv.weight", "q.weight"}


def test_the_command_line_shows_kinds_and_what_was_left_out(checkpoint, tmp_path):
    text = prune_gui("inspect", checkpoint.path).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("Left out by patterns")]
    assert "2 running statistics" in line
    assert "3 scales" in line
    assert "float32, running statistic" in text
    assert "Shown and pruned as codes x scales: q.weight\n" in text
    printed = json.loads(prune_gui("inspect", checkpoint.path, "--json").stdout)
    kinds = {each["name"]: each["kind"] for each in printed["tensors"]}
    assert [name for name in LEFT_OUT if kinds[name]] == LEFT_OUT
    recipe, out = tmp_path / "r.yaml", tmp_path / "out.safetensors"
    recipe.write_text("steps: [{method: l1_unstructured, targets: ['*'], amount: 0.5}]")
    applied = prune_gui("apply", recipe, checkpoint.path, "-o", out)
    assert f"Note on step 1: {NOTES['*',]}" in applied.stdout
    page = tmp_path / "page.html"
    reported = prune_gui("report", out, "--reference", checkpoint.path, "-o", page)
    assert reported.returncode == 0, reported.stderr
    assert "2 running statistics" in page.read_text()


def test_scales_of_rows_do_not_fit_a_compact_form(checkpoint):
    with pytest.raises(CheckpointError, match="a scale for each row or block"):
        check_source(checkpoint)
