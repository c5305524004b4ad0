"""Tensors that are no weights are recognized by names, shapes, and the tensors beside them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize
from transformer_families import FAMILIES

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.parameters import parameters
from prune_gui.checkpoint.roles import counted
from prune_gui.checkpoint.scales import BLOCK_FIELD
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.recipe.selector import select

BATCH_NORM = "weight:8 bias:8 running_mean:8=statistic running_var:8=statistic"
F8, I8, U8, I32, BF = "float8_e4m3fn", "int8", "uint8", "int32", "bfloat16"
LAYOUTS = {
    "batch norm": f"{BATCH_NORM} num_batches_tracked:/int64=statistic",
    "instance norm without weights": "a.running_mean:8=statistic a.running_var:8=statistic",
    "keras": "bn.gamma:8 bn.beta:8 bn.moving_mean:8=statistic bn.moving_variance:8=statistic",
    "keras of before": "b/gamma:0:8 b/moving_mean:0:8=statistic b/moving_variance:0:8=statistic",
    "mxnet": "bn0_gamma:8 bn0_moving_mean:8=statistic bn0_moving_var:8=statistic",
    "paddle": "bn.weight:8 bn._mean:8=statistic bn._variance:8=statistic",
    "one statistic alone": "bn.weight:8 bn.running_var:8=statistic",
    "tensorflow": (
        "c/w:8,8 c/w/Adam:8,8=moment c/w/Adam_1:8,8=moment c/w/ExponentialMovingAverage:8,8=average"
    ),
    "keras 3": (
        "layers.batch_normalization_1.vars.0:8 layers.batch_normalization_1.vars.1:8 "
        "layers.batch_normalization_1.vars.2:8=statistic "
        "layers.batch_normalization_1.vars.3:8=statistic layers.dense.vars.0:8,8 "
        "layers.dense.vars.1:8 layers.layer_normalization.vars.0:8 "
        "layers.layer_normalization.vars.1:8"
    ),
    "flax": (
        "params.bn.scale:8 params.bn.bias:8 batch_stats.bn.mean:8=statistic "
        "batch_stats.bn.var:8=statistic"
    ),
    "haiku": (
        "bn.var_ema.average:1,8=statistic bn.var_ema.hidden:1,8=statistic "
        "bn.var_ema.counter:/int32 bn.scale:8"
    ),
    "image statistics": "pixel_mean:3,1,1=statistic pixel_std:3,1,1=statistic conv.weight:8,3,3,3",
    "codebook": "q.embed:64,8 q.embed_avg:64,8=statistic q.cluster_size:64=statistic",
    "gpt-2": (
        "h.0.attn.bias:1,1,16,16=buffer h.0.attn.masked_bias:=buffer h.0.attn.c_attn.bias:24 "
        "h.0.attn.c_attn.weight:8,24"
    ),
    "lessons": "sa.tril:16,16=buffer head.attn.mask:1,1,16,16=buffer key.weight:16,16",
    "rotary": (
        "rope.freqs:8=buffer rotary_emb.inv_freq:8=buffer r.cos_cached:1,1,16,8=buffer "
        "rope_freqs.weight:32=buffer freqs_cis:16,4=buffer"
    ),
    "caches": (
        "a.cos_sin_cache:16,8=buffer pos_embeddings.cache:16,4,2=buffer x.future_mask:9,9=buffer"
    ),
    "positions": "e.position_ids:1,16/float16=buffer e.position_embeddings.weight:16,8",
    "swin": (
        "a.relative_position_index:64,64/float32=buffer a.relative_position_bias_table:15,4 "
        "attn_mask:4,49,49=buffer"
    ),
    "spectrogram": (
        "spectrogram.window:64=buffer mel_scale.fb:33,16=buffer stft.basis_buffer:66,1,64=buffer"
    ),
    "diffusion": (
        "betas:100=buffer alphas_cumprod:100=buffer sqrt_one_minus_alphas_cumprod:100=buffer "
        "posterior_variance:100=buffer p2_loss_weight:100=buffer model.alpha_embed.weight:8,8 "
        "model.log_sigma:8"
    ),
    "tables of rotary embeddings": "rope.cos:32,8=buffer rope.sin:32,8=buffer",
    "moco": (
        "encoder_q.a.weight:8,8 encoder_q.b.weight:8 encoder_k.a.weight:8,8=average "
        "encoder_k.b.weight:8=average queue:8,64=buffer queue_ptr:1/int64"
    ),
    "router": "gate.e_score_correction_bias:8=buffer gate.weight:8,16",
    "gptq": (
        f"q.qweight:4,16/{I32}!quantized q.qzeros:1,2/{I32}=scale q.scales:1,16/float16=scale "
        f"q.g_idx:32/{I32}=scale q.bias:16/float16"
    ),
    "nunchaku": f"q.qweight:16,4/{I8}!quantized q.wscales:2,16=scale q.smooth_factor:8=scale",
    "marlin": f"q.B:2,32/{I32}!quantized q.s:1,16/float16=scale q.workspace:8/{I32}",
    "aqlm": (
        f"q.codes:8,2,1/{I8}!quantized q.codebooks:1,256,1,8/float16=scale q.scales:8,1,1,1=scale"
    ),
    "bitsandbytes, 4 bits": (
        f"q.weight:64,1/{U8}!quantized q.weight.absmax:2=scale q.weight.quant_map:16=scale "
        f"q.weight.nested_absmax:1=scale q.weight.nested_quant_map:256=scale "
        f"q.weight.quant_state.bitsandbytes__nf4:90/{U8} q.bias:16"
    ),
    "bitsandbytes, in bfloat16": (
        f"q.weight:32,1/{BF}!quantized q.weight.absmax:2=scale q.weight.quant_map:16=scale"
    ),
    "bitsandbytes, 8 bits": (
        f"q.weight:16,8/{I8}!quantized q.SCB:16=scale q.weight_format:/{U8}=scale"
    ),
    "hqq": "q.W_q:16,8/float16!quantized q.scale:16,1/float16=scale q.zero:16,1/float16=scale",
    "compressed tensors": (
        f"q.weight_packed:16,1/{I32}!quantized q.weight_scale:16,1/{BF}=scale "
        f"q.weight_zero_point:16,1/{I8}=scale q.weight_shape:2/int64=scale "
        f"q.weight_g_idx:8/{I32}=scale"
    ),
    "compressed tensors, 8 bits": (
        f"q.weight:16,8/{I8}!quantized q.weight_scale:16,1/{BF}=scale q.input_scale:=scale "
        f"q.input_zero_point:/{I8}=scale"
    ),
    "fp8": (
        f"q.weight:16,8/{F8} q.weight_scale:=scale q.input_scale:=scale q.bias:16 "
        f"a.k_scale:=scale a.v_scale:=scale"
    ),
    "fp8, by row": f"q.weight:16,8/{F8} q.weight_scale:16,1=scale q.input_scale_ub:=scale",
    "fp8 of DeepSeek": f"q.weight:16,8/{F8} q.weight_scale_inv:1,1=scale norm.weight:8",
    "fp8 of ComfyUI": (
        f"q.weight:16,8/{F8} q.scale_weight:=scale q.scale_input:=scale scaled_fp8:2/{F8}=buffer"
    ),
    "fp8 of stacked experts": (
        f"e.gate_up_proj:2,8,16/{F8} e.gate_up_proj_scale:2,1,16=scale "
        "e.gate_up_proj_input_scale:2=scale e.gate_up_proj_bias:2,16"
    ),
    "fp8 of the key-value cache": (
        "a.k_proj.weight:8,8 a.k_proj.k_scale:=scale a.v_proj.v_scale:=scale"
    ),
    "scales of other names": f"q.weight:16,8/{I8}!quantized q.w_scales:16=scale q.act_scale:=scale",
    "nvfp4": (
        f"q.weight:16,4/{U8}!quantized q.weight_scale:16,1/{F8}=scale q.weight_scale_2:=scale "
        f"q.input_scale:=scale"
    ),
    "mxfp4": (
        f"e.gate_up_proj_blocks:2,8,1,16/{U8}!quantized e.gate_up_proj_scales:2,8,1/{U8}=scale "
        f"e.gate_up_proj_bias:2,8"
    ),
    "quanto": f"q.weight._data:16,8/{I8}!quantized q.weight._scale:16,1=scale",
    "modelopt": "q.weight:16,8 q.weight_quantizer._amax:=scale q.input_quantizer._amax:=scale",
    "observers": (
        "f.scale:1=scale f.zero_point:1/int32=scale f.o.min_val:=scale f.o.max_val:=scale "
        "f.o.eps:1=scale"
    ),
    "bitnet in gguf": "blk.0.attn_q.weight:16,256/TQ2_0!quantized blk.0.attn_q.scale:1=scale",
    "kohya": (
        "lora_unet_q.lora_down.weight:4,8 lora_unet_q.lora_up.weight:8,4 lora_unet_q.alpha:=alpha "
        "lora_unet_q.dora_scale:8,1=scale"
    ),
    "loha": "q.hada_w1_a:8,4 q.hada_w1_b:4,8 q.alpha:=alpha",
    "dora of peft": (
        "q.lora_A.weight:4,8 q.lora_B.weight:8,4 q.lora_magnitude_vector:8=scale "
        "k.lora_magnitude_vector.default.weight:8=scale"
    ),
    "movement pruning": "q.weight:16,8 q.mask_scores:16,8=mask q.threshold:=mask q.bias:16",
    "movement pruning by block": "q.weight:16,8 q.mask_scores:4,2=mask",
    "masks below weights": "q.weight:8,8 q.weight.mask:8,8=mask r.weight:4 r.pruning_mask:4=mask",
    "sparsifier of torch.ao": (
        "q.parametrizations.weight.original:8,8! q.parametrizations.weight.0.mask:8,8=mask"
    ),
    "nncf": "q.weight:8,8 q.pre_ops.0.op._binary_mask:8,8=mask",
    "masks beside weights": "q.weight:16,8 q.weight_mask:16,8=mask q.bias:16 q.bias_mask:16=mask",
    "masked layers": "q.weight:16,8 q.mask:16,8=mask s.weight:8,8 s.scores:8,8=mask",
    "learned thresholds": "conv.weight:8,3,3,3 conv.sparseThreshold:8,1=mask",
    "adam": "exp_avg:64=moment exp_avg_sq:64=moment step:=moment",
    "adam in the same file": (
        "model.q.weight:8,8 optimizer.state.0.exp_avg:8,8=moment "
        "optimizer.state.0.exp_avg_sq:8,8=moment optimizer.state.0.other:8,8=moment"
    ),
    "deepspeed": (
        "optimizer_state_dict.base_optimizer_state.0.exp_avg:64=moment "
        "optimizer_state_dict.base_optimizer_state.1.exp_avg_sq:64=moment "
        "optimizer_state_dict.single_partition_of_fp32_groups.0:64=moment module.q.weight:8,8"
    ),
    "adam, names inside": "exp_avg.q.weight:8,8=moment exp_avg_sq.q.weight:8,8=moment q.weight:8",
    "optax": "opt_state.0.mu.d.kernel:8,8=moment opt_state.0.nu.d.kernel:8,8=moment d.kernel:8,8",
    "no optimizer": "optimizer_and_model.w:8,8 optimal.w:8 options.w:8",
    "momentum": "state.0.momentum_buffer:8,8=moment q.weight:8,8",
    "8 bit adam": (
        f"state.0.state1:64/{U8}=moment state.0.qmap1:256=moment state.0.absmax1:1=moment"
    ),
    "ema": (
        "model.a.weight:8,8 model.b.weight:8 model_ema.a.weight:8,8=average "
        "model_ema.b.weight:8=average model_ema.decay:=average"
    ),
    "ema of a wrapper": (
        "a.weight:8,8 b.weight:8 ema.module.a.weight:8,8=average ema.module.b.weight:8=average"
    ),
    "ema of latent diffusion": (
        "model.diffusion.a.weight:8,8 model.diffusion.b.bias:8 "
        "model_ema.num_updates:/int32=average model_ema.diffusionaweight:8,8=average "
        "model_ema.diffusionbbias:8=average"
    ),
    "ema of a submodule": (
        "net.a.weight:8,8 net.b.weight:8 net_ema.a.weight:8,8=average net_ema.b.weight:8=average"
    ),
}
"""Tensors as name:shape/dtype, with =kind, or with !reason if they cannot be pruned."""
WEIGHTS = {
    "layer scale": "b.scale:8 b.gamma:8 b.lambda1:8 b.weight:8,8 logit_scale:",
    "norm of flax": "norm.scale:8 norm.bias:8 norm.kernel:8,8",
    "scale beside plain weights": "q.weight:8,8 q.scale:8 q.weight_scale:8 q.q_scale:8 q.k_scale:8",
    "alpha of an activation": "act.alpha:1 act.weight:8",
    "a causal name without its shape": "attn.bias:8 attn.mask:8,4 tril.weight:8,8 pe.window:8,8",
    "bayesian": "q.weight_mean:8,8 q.weight_std:8,8 mean:8,8 std:8,8 mean.weight:8",
    "averages without an original": "ema.a.weight:8,8 ema.b.weight:8 other.weight:8",
    "mega": "mega.ema_gate.damping:8,4 mega.ema_gate.decay:8,4 mega.damping:7 x.weight:8,4",
    "only the averages": "ema_model.a.weight:8,8 ema_model.b.weight:8",
    "vector quantizer": "vector_quantizer.embedding.weight:64,8 quantizer.weight:8,8",
    "a state space": "ssm.A_log:8 ssm.B:8,8 ssm.s:8 ssm.D:8 ssm.mu:8 ssm.sum:8 ssm.step:8",
    "an unpaired mean": "x.var:8 y.mean:8 z.running_mean:8,8 running_mean_head.weight:8",
    "positional": "pos_embed:1,16,8 relative_attention_bias.weight:32,8 position_bias.weight:8",
    "thresholds of neurons": "lif.threshold:8 lif.beta:8",
    "betas of a norm": "n.beta:8 n.betas:7 n.gamma:8",
    "optimal names": "optimus.weight:8 opt.embed.weight:8,8 state.weight:8",
    "masked": "mask_token:1,1,8 masked_spec_embed:8 mask.weight:8,8",
    "adapters": "q.lora_A.weight:4,8 q.lora_B.weight:8,4 q.ia3_l:8,1",
}
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


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), *WEIGHTS.values()], ids=[*LAYOUTS, *WEIGHTS])
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
