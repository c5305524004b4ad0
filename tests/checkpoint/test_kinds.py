"""Tensors that are no weights are recognized by names, shapes, and the tensors beside them."""

from pathlib import Path

import pytest
import torch
import yaml
from torch.nn.utils import parametrizations, parametrize
from transformer_families import FAMILIES

from prune_gui.checkpoint import TensorInfo, open_checkpoint
from prune_gui.checkpoint.parameters import BLOCK_FIELD, parameters
from prune_gui.checkpoint.roles import counted
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.recipe.selector import select

F8, BF = "float8_e4m3fn", "bfloat16"
TABLES = yaml.safe_load(Path(__file__).with_name("layouts.yaml").read_text("utf-8"))
LAYOUTS = {**TABLES["layouts"], **TABLES["weights"]}
pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
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


def infos_of(layout: str):
    """Return the parameters of a layout, and the kinds and reasons that it expects."""
    raw, kinds, reasons = {}, {}, {}
    for text in layout.split():
        head, _, kind = text.partition("=")
        head, _, reason = head.partition("!")
        name, _, form = head.rpartition(":")
        sizes, _, dtype = form.partition("/")
        shape = tuple(int(size) for size in sizes.split(",") if size)
        raw[name] = RawTensor(shape, dtype or "float32")
        kinds[name] = kind or None
        reasons[name] = reason
    return parameters(raw)[0], kinds, reasons


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_is_no_weight_is_recognized_and_left_out_of_wildcards(layout):
    infos, kinds, reasons = infos_of(layout)
    found = {name: info.kind for name, info in infos.items()}
    of_codes = {
        name for name, info in infos.items() if info.dtype not in ("float32", "float16", BF, F8)
    }
    assert {n: k for n, k in found.items() if n not in of_codes or kinds[n]} == {
        n: k for n, k in kinds.items() if n not in of_codes or k
    }
    for name, reason in reasons.items():
        assert not reason or infos[name].not_prunable == reason, name
        assert infos[name].role or not (infos[name].kind or reason), name
    expected = [name for name in infos if found[name] is None]
    every = infos.values()
    assert [info.name for info in select(["*"], every)] == expected
    assert [info.name for info in select(["!nothing"], every)] == expected
    assert {info.name for info in select([*infos], every)} == infos.keys()
    assert {info.name for info in select(["dims>=0"], every)} == infos.keys()
    assert {info.name for info in select(["* dims>=0"], every)} == infos.keys()
    assert select(["dims>=0", "!*"], every) == []


def test_a_module_in_the_file_tells_its_buffers(saved):
    model = torch.nn.Linear(4, 4)
    model.register_buffer("table", torch.ones(4, 4))
    model.own = torch.nn.Parameter(torch.ones(4, 4))
    with open_checkpoint(saved(model)) as checkpoint:
        kinds = {name: info.kind for name, info in checkpoint.tensors.items()}
    assert kinds == {"weight": None, "bias": None, "table": "buffer", "own": None}


def test_an_optimizer_of_lists_is_not_opened_in_place_of_the_model(saved):
    moments = [{"exp_avg": torch.ones(9), "exp_avg_sq": torch.ones(9), "of": torch.ones(2)}]
    content = {"optimizer": {"base_optimizer_state": moments}, "module": {"w": torch.ones(3)}}
    path = saved(content)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.state_dict == "module"
    with open_checkpoint(path, "optimizer.base_optimizer_state.0") as checkpoint:
        assert {info.kind for info in checkpoint.tensors.values()} == {"moment"}


def test_blocks_of_config_json_are_used_where_shapes_leave_a_choice():
    raw = {"w": RawTensor((600, 8), F8), "w_scale_inv": RawTensor((5, 1), "float32")}
    named = {f"{BLOCK_FIELD}0": 120, f"{BLOCK_FIELD}1": 120}
    assert parameters(raw)[0]["w"].scale.blocks == (128, 8)
    assert parameters(raw, named)[0]["w"].scale.blocks == (120, 8)


def test_kinds_are_counted_in_words():
    kinds = ("buffer", "statistic", "scale", "alpha", "mask", "moment", "average")
    assert {counted(kind, 1) for kind in kinds}.isdisjoint(counted(kind, 2) for kind in kinds)
    assert counted("statistic", 1200) == "1,200 running statistics"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_all_parameters_of_a_family_are_weights_and_no_buffer_is(family):
    import transformers  # slow to import

    name, changes = FAMILIES[family]
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**changes))
    raw = {
        key: RawTensor(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for key, tensor in model.state_dict().items()
    }
    trained = {key for key, _ in model.named_parameters(remove_duplicate=False)}
    infos = parameters(raw)[0].values()
    assert [one.name for one in select(["*"], infos)] == [key for key in raw if key in trained]


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


def raw(shape=(2, 3), view=None, special=None):
    return RawTensor(shape, "float32", view, special)


def test_an_original_and_its_mask_are_one_parameter_at_the_position_of_the_first():
    infos, remarks = parameters({"a.b": raw(), "a.w_mask": raw(), "c": raw(), "a.w_orig": raw()})
    assert list(infos) == ["a.b", "a.w", "c"]
    assert infos["a.w"].pair == ("a.w_orig", "a.w_mask")
    assert remarks == []


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({"w": raw(), "w_orig": raw(), "w_mask": raw()}, "'w' exists too"),
        ({"w_orig": raw(), "w_mask": raw((2,))}, "their shapes differ"),
        ({"w_orig": raw(), "w_mask": raw(special="sparse")}, "not both dense (sparse)"),
    ],
)
def test_tensors_that_only_look_like_a_pair_stay_separate_with_a_remark(tensors, reason):
    infos, remarks = parameters(tensors)
    assert list(infos) == list(tensors)
    assert all(info.pair is None for info in infos.values())
    (remark,) = remarks
    assert reason in remark


@pytest.mark.parametrize("key", ["w_orig", "w_mask", "_orig", "attention_mask"])
def test_half_a_pair_is_an_ordinary_tensor(key):
    infos, remarks = parameters({key: raw()})
    assert list(infos) == [key]
    assert remarks == []


def test_equal_views_are_one_parameter_with_aliases():
    infos, _ = parameters({"emb": raw(view=1), "x": raw(view=2), "head": raw(view=1)})
    assert list(infos) == ["emb", "x"]
    assert infos["emb"].aliases == ("head",)


def test_tied_pairs_are_one_parameter_only_if_their_masks_are_tied():
    tied = {f"{name}_orig": raw(view=1) for name in "abc"}
    masks = {"a_mask": raw(view=2), "b_mask": raw(view=2), "c_mask": raw(view=3)}
    infos, _ = parameters(tied | masks)
    assert list(infos) == ["a", "c"]
    assert infos["a"].aliases == ("b",)
    assert infos["c"].aliases == ()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["module.a", "module.b"], "'module.', which DataParallel"),
        (["_orig_mod.a"], "'_orig_mod.', which torch.compile"),
        (["a._orig_mod.b", "c"], "'_orig_mod.', which torch.compile"),
        (["module.a", "b"], ""),
    ],
)
def test_prefixes_from_training_are_kept_with_a_remark(names, words):
    infos, remarks = parameters({name: raw() for name in names})
    assert list(infos) == names
    assert [words in remark for remark in remarks] == [True] * bool(words)


def test_the_number_of_remarks_of_one_kind_is_limited(monkeypatch):
    pairs = {f"{i}_{half}": raw((i,)) for i in range(9) for half in ("orig",)}
    pairs |= {f"{i}_mask": raw() for i in range(9)}
    assert len(parameters(pairs)[1]) == 6


@pytest.mark.parametrize(
    ("shape", "dtype", "special", "reason"),
    [
        ((2, 3), "float32", None, None),
        ((), "bfloat16", None, None),
        ((4,), "float8_e5m2", None, None),
        ((0, 3), "float32", None, "empty"),
        ((3,), "int64", None, "integer"),
        ((3,), "uint8", None, "integer"),
        ((3,), "bool", None, "boolean"),
        ((3,), "complex64", None, "complex"),
        ((3,), "quint8", "quantized", "quantized"),
        ((3,), "float32", "sparse", "sparse"),
        ((4,), "float4_e2m1", None, "packed"),
        ((4,), "float8_e8m0fnu", None, "cannot hold a zero"),
    ],
)
def test_only_nonempty_real_floating_point_tensors_are_prunable(shape, dtype, special, reason):
    assert TensorInfo("x", shape, dtype, special=special).not_prunable == reason


def test_sizes_count_elements_and_packed_bytes():
    assert TensorInfo("x", (2, 3), "bfloat16").nbytes == 12
    assert TensorInfo("x", (), "float64").numel == 1
    assert TensorInfo("x", (4, 2), "float6_e2m3").nbytes == 6
