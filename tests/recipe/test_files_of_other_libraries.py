"""Files in the shapes that training libraries save: opened, finalized, and loaded by their code."""

from __future__ import annotations

import argparse
import collections
import datetime as dt
import enum
import functools
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch
from torch import nn

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, export, resolve

LEGACY = {"_use_new_zipfile_serialization": False}
RECIPE = Recipe.model_validate(
    {"version": 1, "steps": [{"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}]}
)


class Stage(enum.Enum):
    """A setting of the owner's program."""

    WARM = "warm"


class AttributeDict(dict[str, object]):
    """A dictionary of hyperparameters."""

    def __getattr__(self, key: str) -> object:
        """Return the value of a key."""
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
        """Return the embedding of indices."""
        return self.embedding(values) * self.scale


class Trainer:
    """An object of the owner's program that holds a network."""

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
    content = torch.load(path, weights_only=False)
    with open_checkpoint(path) as opened:
        expected = state_at(content, opened.root)
        names = {alias for info in opened.tensors.values() for alias in (info.name, *info.aliases)}
        assert names == expected.keys()
        resolution = resolve(RECIPE, opened)
        export(resolution, out)
        for name in resolution.layers:
            expected[name].detach().masked_fill_(~resolution.mask(name), 0)
        result = state_at(torch.load(out, weights_only=False), opened.root)
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
