"""Weights that are computed from several tensors: the role of each, and which are prunable."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.parameters import RawTensor, parameters

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")


class Symmetric(torch.nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


def module(kind: str) -> torch.nn.Module:
    linear, convolution = torch.nn.Linear(4, 6), torch.nn.Conv2d(4, 6, 3)
    if kind == "parametrize":
        parametrize.register_parametrization(square := torch.nn.Linear(3, 3), "weight", Symmetric())
        return square
    return {
        "weight_norm": lambda: torch.nn.utils.weight_norm(convolution),
        "weight_norm of all": lambda: torch.nn.utils.weight_norm(linear, dim=None),
        "weight_norm, new": lambda: parametrizations.weight_norm(convolution),
        "spectral_norm": lambda: torch.nn.utils.spectral_norm(convolution),
        "spectral_norm, new": lambda: parametrizations.spectral_norm(linear),
        "orthogonal": lambda: parametrizations.orthogonal(linear),
    }[kind]()


PARAMETRIZATION = "parametrizations.weight"
PRUNED = {
    "weight_norm": {"weight_v": "direction of the weight-normalized"},
    "weight_norm of all": {"weight_v": "direction of the weight-normalized"},
    "weight_norm, new": {f"{PARAMETRIZATION}.original1": "direction of the weight-normalized"},
    "spectral_norm": {"weight_orig": "spectrally normalized"},
    "spectral_norm, new": {f"{PARAMETRIZATION}.original": "spectrally normalized"},
    "orthogonal": {f"{PARAMETRIZATION}.original": "not necessarily zeros"},
    "parametrize": {f"{PARAMETRIZATION}.original": "not necessarily zeros"},
}
SPARED = {
    "weight_norm": {"weight_g"},
    "weight_norm of all": {"weight_g"},
    "weight_norm, new": {f"{PARAMETRIZATION}.original0"},
    "spectral_norm": {"weight_u", "weight_v"},
    "spectral_norm, new": {f"{PARAMETRIZATION}.0._u", f"{PARAMETRIZATION}.0._v"},
}


@pytest.mark.parametrize("kind", PRUNED)
def test_tensors_of_a_reparametrized_weight_have_roles_and_only_some_are_pruned(saved, kind):
    model = torch.nn.ModuleDict({"a": module(kind)})
    with open_checkpoint(saved(model.state_dict())) as checkpoint:
        tensors = checkpoint.tensors
    assert set(tensors) == set(model.state_dict())
    assert all(info.pair is None for info in tensors.values())
    roles = {name.removeprefix("a."): info.role for name, info in tensors.items() if info.role}
    assert roles.keys() == PRUNED[kind].keys() | SPARED.get(kind, set())
    assert all("a.weight" in role for role in roles.values())
    for name, words in PRUNED[kind].items():
        assert words in roles[name]
        assert tensors[f"a.{name}"].not_prunable is None
    for name in SPARED.get(kind, ()):
        assert tensors[f"a.{name}"].not_prunable in (
            "magnitude of a weight norm",
            "vector of a power iteration",
        )


@pytest.mark.parametrize(
    "shapes",
    [
        {"w_g": (6,), "w_v": (6,)},
        {"w_g": (6, 4), "w_v": (6, 4)},
        {"w_g": (6, 1)},
        {"to_g.weight": (6, 1), "to_v.weight": (6, 4)},
        {"w_u": (7,), "w_orig": (6, 4)},
        {"w_u": (6,), "w": (6, 4)},
        {"parametrizations.w.0.base": (6, 4)},
    ],
)
def test_tensors_that_only_have_similar_names_have_no_role(shapes):
    infos, _ = parameters({name: RawTensor(shape, "float32") for name, shape in shapes.items()})
    assert all(info.role is None and not info.not_prunable for info in infos.values())


def test_a_pruned_direction_is_a_pair_with_a_role():
    shapes = {"w_g": (6, 1), "w_v_orig": (6, 4), "w_v_mask": (6, 4)}
    infos, _ = parameters({name: RawTensor(shape, "float32") for name, shape in shapes.items()})
    assert infos["w_v"].pair == ("w_v_orig", "w_v_mask")
    assert "direction" in infos["w_v"].role


def test_originals_of_other_parametrizations_have_a_role_and_are_prunable():
    shapes = {f"parametrizations.w.original{i}": (6, 4) for i in range(3)}
    infos, _ = parameters({name: RawTensor(shape, "float32") for name, shape in shapes.items()})
    assert all("parametrized w" in info.role for info in infos.values())
    assert all(info.not_prunable is None for info in infos.values())
