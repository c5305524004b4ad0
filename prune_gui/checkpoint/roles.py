"""The roles of tensors: those that a weight is computed from, and those that are no weights.

A name alone decides little: a LayerScale may be called `scale`, and a learned factor `alpha`. So
most rows of `RULES` also ask for the tensors beside, and for their shapes and dtypes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count, takewhile
from typing import Final, NamedTuple

from prune_gui.checkpoint.tensor_info import (
    CODE_DTYPES,
    QUANTIZED,
    QUANTIZED_TYPES,
    Kind,
    TensorInfo,
)
from prune_gui.language import deferred, trn

GROUP_SUFFIXES: Final = ("_g", "_u", ".original", ".original0")
"""Suffixes of one tensor of each group; the others are found from its name."""
PARAMETRIZED: Final = re.compile(r"(?P<module>(?:.*\.)?)parametrizations\.(?P<weight>[^.]+)\.[^.]+")

DIRECTION: Final = deferred(
    "direction of the weight-normalized {weight}: zeros here are zeros in that weight, and its "
    "other elements are scaled up to the same norm"
)
MAGNITUDE: Final = deferred("magnitude of the weight-normalized {weight}")
SPECTRAL: Final = deferred(
    "stored form of the spectrally normalized {weight}: zeros here are zeros in that weight, and "
    "its other elements are divided by another norm"
)
ITERATION: Final = deferred("vector of the power iteration for the spectral norm of {weight}")
ORIGINAL: Final = deferred(
    "stored form of the parametrized {weight}: zeros here are not necessarily zeros in that weight"
)
WEIGHT_NORM_REASON: Final = deferred("magnitude of a weight norm")
ITERATION_REASON: Final = deferred("vector of a power iteration")


AVERAGE: Final = deferred("averaged copy (EMA) of {name}")

MOMENTS: Final = re.compile(
    r"(?:max_)?exp_avg\w*|exp_inf|momentum_buffer|square_avg|grad_avg|acc_delta"
)
"""The names that optimizers of torch give to their state, one of which is in each of them."""
PATHS: Final = re.compile(
    r"(?:^|[./])(?P<moment>optimizers?(?:_(?:state_dict|states?|weights|vars|[\da-z]|gen\w*|dis\w*))?"
    rf"|optim(?:_states?)?|opt_state|{MOMENTS.pattern}"
    r"|base_optimizer_state|single_partition_of_fp32_groups|fp32_flat_groups"
    r"|fp32_from_fp16_params)(?:$|[./])"
    r"|(?:^|[./])(?P<buffer>rope_freqs|rope_factors_\w+)[./]"
    r"|(?:^|[./])batch_stats[./].*[./](?P<statistic>mean|var)$"
    r"|(?:^|[./])(?P<magnitude>lora_magnitude_vector)(?:$|[./])"
    r"|(?:^|[./])parametrizations[./][^./]+[./]\d+[./](?P<mask>mask)$"
    r"|_quantizer[./](?P<scale>_?(?:\w*amax|pre_quant_scale|scale|zero_point))$"
)
"""Paths that tell the kind: of DeepSpeed, Optax, GGUF, flax, PEFT and ModelOpt."""
AVERAGED: Final = re.compile(
    r"(?:^|[./])(?:(?:\w+_)?(?:ema|EMA|swa)(?:_\w+)?|averaged_\w+|encoder_k"
    r"|(?:target|momentum)_(?:encoder|network))[./]",
    re.ASCII,
)
"""The part of a path below which averaged copies are; encoder_k is that of MoCo."""
PATH_WORDS: Final = (
    *("opt", "fp32_", "exp_", "momentum_buffer", "square_avg", "grad_avg", "acc_delta"),
    *("parametrizations", "batch_stats", "_quantizer", "rope_f", "lora_mag"),
)
AVERAGE_WORDS: Final = ("ema", "EMA", "swa", "averaged_", "encoder_k", "target_", "momentum_")
"""Words without which no name matches `PATHS`, and `AVERAGED`; searching them first is faster."""
WRAPPERS: Final = re.compile(r"(?:module|model|_orig_mod)[./]")
"""What the copies may have in front of the names of the model."""
SEPARATORS: Final = re.compile(r"[./]")
KERAS_NORM: Final = re.compile(r"(.*[./]|)(?:batch_)?normalization(?:_\d+)?[./]vars[./]")
ADAPTERS: Final = (
    *("{m}lora_down.weight", "{m}lora_up.weight", "{m}lora_A.weight", "{m}lora.down.weight"),
    *("{m}lora_magnitude_vector", "{m}hada_w1_a", "{m}lokr_w1", "{m}lokr_w1_a", "{m}lokr_w2"),
    *("{m}oft_blocks", "{m}oft_diag"),
)
CODE_NAMES: Final = ("{m}qweight", "{m}q_weight", "{m}Qidxs", "{m}codes", "{m}B")
"""The codes of GPTQ and AWQ, EXL2, QuIP#, AQLM, and Marlin."""
SCHEDULE: Final = ("{m}alphas_cumprod", "{m}betas", "{m}log_sigmas", "{m}sigmas")


class TensorRole(NamedTuple):
    """What a tensor is for; see `TensorInfo.role`, `TensorInfo.spared` and `TensorInfo.kind`."""

    text: str
    spared: str | None = None
    kind: Kind | None = None


NamedRoles = Iterator[tuple[str, TensorRole]]
"""Names of tensors, and their roles."""


class Rule(NamedTuple):
    """How the tensors of a role are recognized.

    Attributes:
        role: the role.
        name: a regular expression of the last part of the name.
        beside: names of which one must exist: `{m}` is the path of the module with its last
            separator, `{up}` without it, and others are groups of `name`. () asks for none.
        fits: whether the tensor, and the one beside it, have shapes and dtypes of the role.
        module: a regular expression that is searched in the last part of the path of the module.
        codes: whether the tensor beside it is made of codes, which are not pruned unless they are
            floating point numbers.
    """

    role: TensorRole
    name: str
    beside: tuple[str, ...] = ()
    fits: Callable[[TensorInfo, TensorInfo], bool] = lambda *_: True
    module: str = ""
    codes: bool = False


def _is_vector(one: TensorInfo, _: TensorInfo) -> bool:
    return sum(size != 1 for size in one.shape) <= 1


def _is_number(one: TensorInfo, _: TensorInfo) -> bool:
    return one.numel == 1


def _is_square(one: TensorInfo, _: TensorInfo) -> bool:
    rows, columns = (0, 1, *one.shape)[-2:]
    return rows == columns > 1 and one.numel == rows * columns


def _is_causal(one: TensorInfo, _: TensorInfo) -> bool:
    return len(one.shape) == 4 and _is_square(one, one)


def _are_windows(one: TensorInfo, _: TensorInfo) -> bool:
    return len(one.shape) > 1 and one.shape[-1] == one.shape[-2]


def _are_alike(one: TensorInfo, other: TensorInfo) -> bool:
    return one.shape == other.shape


def _are_vectors(one: TensorInfo, other: TensorInfo) -> bool:
    return one.shape == other.shape and _is_vector(one, other)


def _masks(one: TensorInfo, weight: TensorInfo) -> bool:
    sides = zip(one.shape, weight.shape, strict=False)
    return len(one.shape) <= len(weight.shape) and all(a and b % a == 0 for a, b in sides)


def _has_codes(_: TensorInfo, codes: TensorInfo) -> bool:
    is_packed = codes.dtype in QUANTIZED_TYPES or codes.special == QUANTIZED
    return is_packed or codes.dtype.startswith(("float8", "int", "uint"))


BUFFERS: Final = TensorRole(deferred("buffer: not trained"), kind="buffer")
STATISTICS: Final = TensorRole(deferred("running statistic"), kind="statistic")
SCALES: Final = TensorRole(deferred("scale, zero point or map of quantized numbers"), kind="scale")
MASKS: Final = TensorRole(deferred("mask, score or threshold of a pruning wrapper"), kind="mask")
AVERAGES: Final = TensorRole(deferred("averaged copy (EMA)"), kind="average")
MAGNITUDES: Final = TensorRole(
    deferred("magnitude of an adapter (DoRA): the norms of the adapted weight"), kind="scale"
)
ALPHAS: Final = TensorRole(
    deferred("alpha of an adapter: a factor of all its weights"), kind="alpha"
)
OPTIMIZER: Final = TensorRole(deferred("state of the optimizer"), kind="moment")
ROLES_OF_PATHS: Final = {
    "moment": OPTIMIZER,
    "buffer": BUFFERS,
    "statistic": STATISTICS,
    "scale": SCALES,
    "magnitude": MAGNITUDES,
    "mask": MASKS,
}

RULES: Final = (
    Rule(OPTIMIZER, "(?:Adam|RMSProp|Momentum)(?:_1)?", ("{up}",), _are_alike),  # TensorFlow
    Rule(AVERAGES, "ExponentialMovingAverage", ("{up}",), _are_alike),
    Rule(OPTIMIZER, "step|(?:state|qmap|absmax)[12]|sum|mu",
         ("{m}exp_avg", "{m}state1", "{m}state2", "{m}qmap1")),
    Rule(STATISTICS, "num_batches_tracked"),
    Rule(STATISTICS, r"(?:\w+_)?(?:running|moving|rolling)_(?:mean|var|variance|std)(?::0)?", (),
         _is_vector),
    Rule(STATISTICS, "(?P<of>|_|pixel_|image_)mean(?P<n>(?::0)?)",
         ("{m}{of}var{n}", "{m}{of}std{n}", "{m}{of}variance{n}"), _are_vectors),
    Rule(STATISTICS, "(?P<of>|_|pixel_|image_)(?:var|std|variance)(?P<n>(?::0)?)",
         ("{m}{of}mean{n}",), _are_vectors),
    Rule(STATISTICS, "average|hidden", ("{m}counter",), _is_vector),
    Rule(STATISTICS, "cluster_size", ("{m}embed_avg",)),
    Rule(STATISTICS, "embed_avg", ("{m}cluster_size",)),
    Rule(BUFFERS, r"scaled_fp8|relative_(?:position_index|coords_table)|\w+_buffer"),
    Rule(BUFFERS, r"(?:\w+_)?inv_freq|(?:cos_|sin_)+cached?|freqs_(?:cis|cos|sin)|_float_tensor"),
    Rule(BUFFERS, "position_ids|token_type_ids", (), _is_vector),
    Rule(BUFFERS, "freqs|theta", (), _is_vector, "rope|rotary|pos_emb"),
    Rule(BUFFERS, "cache", (), module="rope|rotary|pos_emb"),
    Rule(BUFFERS, "cos|sin", ("{m}cos", "{m}sin"), _are_alike),
    Rule(BUFFERS, "queue", ("{m}queue_ptr",)),
    Rule(BUFFERS, "window", (), _is_vector, "spec|stft|mel"),
    Rule(BUFFERS, "fb", (), module="mel"),
    Rule(BUFFERS, "e_score_correction_bias|final_logits_bias"),
    Rule(BUFFERS, "beta|eps", ("{m}alpha_p",), _is_number),  # of the activation of Apertus
    Rule(BUFFERS, "masked_bias", (), _is_number),
    Rule(BUFFERS, "bias", (), _is_causal),
    Rule(BUFFERS, r"\w*(?:alpha|beta|sigma|variance|posterior|lvlb|snr|loss_weight)\w*", SCHEDULE,
         _are_vectors),
    Rule(SCALES, r"scales?|qzeros|zeros?|g_idx|s|SU|SV|Wscale|codebooks|q_\w+", CODE_NAMES,
         _has_codes, codes=True),
    Rule(SCALES, "scale|zero|meta", ("{m}W_q",), codes=True),  # HQQ, also as floating point
    Rule(SCALES, r"(?P<of>\w+)_(?:scale|zero_point|shape|g_idx|global_scale)",
         ("{m}{of}_packed",), _has_codes, codes=True),
    Rule(SCALES, r"(?P<of>\w+)_scales", ("{m}{of}_blocks",), _has_codes, codes=True),
    Rule(SCALES, r"absmax|quant_map|nested_\w+", ("{up}",), codes=True),
    Rule(SCALES, r"bitsandbytes__\w+", ("{up}",)),
    Rule(SCALES, "SCB|weight_format", ("{m}weight", "{up}"), _has_codes, codes=True),
    Rule(SCALES, r"(?P<of>\w+?)_(?:input_|weight_|output_)?(?:(?:global_)?scale(?:_inv|_2)?|scales"
         r"|zero_points?)", ("{m}{of}",), _has_codes, codes=True),
    Rule(SCALES, r"\w*(?:scale|zero|absmax|amax|smooth_factor)\w*",
         ("{m}weight", "{m}weight_packed", "{m}qweight"),
         _has_codes, codes=True),
    Rule(SCALES, "(?P<of>_?|_weight_)(?:scale|shift|zero_point)",
         ("{m}{of}data", "{m}{of}qdata"), _has_codes, codes=True),
    Rule(SCALES, "[kq]_scale", ("{m}v_scale",), _is_vector),
    Rule(SCALES, "v_scale", ("{m}k_scale",), _is_vector),
    Rule(SCALES, "[kqv]_scale", (), _is_number, "^[kqv]_proj$"),
    Rule(SCALES, "scale", ("{m}zero_point",), _is_vector),
    Rule(SCALES, "zero_point", ("{m}scale",), _is_vector),
    Rule(SCALES, "min_val|eps", ("{m}max_val",), _is_vector),
    Rule(SCALES, "max_val", ("{m}min_val",), _is_vector),
    Rule(MAGNITUDES, "dora_scale", ADAPTERS),
    Rule(ALPHAS, "(?:lora_|network_)?alpha", ADAPTERS, _is_number),
    Rule(MASKS, "_?binary_mask|mask_scores?|qz_loga"),
    Rule(MASKS, r"_?(?P<of>\w+?)_(?:mask|mask_scores?)", ("{m}{of}", "{m}{of}_orig"), _masks),
    Rule(MASKS, r"(?:\w*_)?(?:mask|thresholds?)|sparseThreshold", ("{m}weight", "{up}"), _masks),
    Rule(MASKS, "thresholds?", ("{m}mask", "{m}mask_scores"), _is_vector),
    Rule(MASKS, "scores", ("{m}weight",), _are_alike),
    Rule(BUFFERS, r"tril|triu|(?:\w+_)?mask", (), _is_square),
    Rule(BUFFERS, "attn_mask", (), _are_windows),
)  # fmt: skip
GROUP_START: Final = re.compile(r"\(\?P<\w+>")
ANY_RULE: Final = re.compile(
    f"^(?:{'|'.join(GROUP_START.sub('(?:', rule.name) for rule in RULES)})$",
    re.ASCII | re.MULTILINE,
)
"""A line with the name of a rule: one search in all names is faster than one for each name."""


def roles(
    tensors: Mapping[str, TensorInfo], buffers: Collection[str] = (), root: str = ""
) -> dict[str, TensorRole]:
    """Return the roles of the tensors that have one, by name.

    Recognizes torch.nn.utils.weight_norm and spectral_norm, their successors in
    torch.nn.utils.parametrizations, the originals of any other parametrization, and what `PATHS`,
    `RULES` and `AVERAGED` describe.
    """
    roles_by_name: dict[str, TensorRole] = {}
    every = {alias: info for info in tensors.values() for alias in info.aliases} | dict(tensors)
    names = "\n".join((root, *tensors))
    has_paths = any(word in names for word in PATH_WORDS)
    ends = {name: max(name.rfind("."), name.rfind("/")) + 1 for name in tensors}
    last_parts = "\n".join({name[end:] for name, end in ends.items()})
    with_rules = {match[0] for match in ANY_RULE.finditer(last_parts)}
    for (name, info), end in zip(tensors.items(), ends.values(), strict=True):
        if name.endswith(GROUP_SUFFIXES):
            roles_by_name.update(_group_roles(name, tensors))
        path = PATHS.search(root + name) if has_paths else None
        if path:
            roles_by_name.setdefault(name, ROLES_OF_PATHS[str(path.lastgroup)])
            continue
        if name[end:] in with_rules:
            for owner, role in _kind_roles(name, end, _rules_for(name[end:]), info, every):
                roles_by_name.setdefault(owner, role)
        elif name[end:].isdecimal() and _is_keras_statistic(name, end, info, every):
            roles_by_name.setdefault(name, STATISTICS)
    for name, role in (*_average_roles(every), *((name, BUFFERS) for name in buffers)):
        roles_by_name.setdefault(name, role)
    return {name: role for name, role in roles_by_name.items() if name in tensors}


KINDS: Final[Mapping[Kind, str]] = {
    "buffer": deferred("buffer"),
    "statistic": deferred("running statistic"),
    "scale": deferred("scale"),
    "alpha": deferred("alpha"),
    "mask": deferred("mask"),
    "moment": deferred("optimizer state"),
    "average": deferred("averaged copy"),
}
"""The names of the kinds."""


def is_moment(path: str) -> bool:
    """Return whether the path of a tensor, from the top of the file, is in an optimizer's state."""
    found = PATHS.search(path)
    return found is not None and found.lastgroup == "moment"


def counted(kind: Kind, count: int) -> str:
    """Return a number of tensors of a kind in words."""
    match kind:
        case "buffer":
            return trn("{count:,} buffer", "{count:,} buffers", count)
        case "statistic":
            return trn("{count:,} running statistic", "{count:,} running statistics", count)
        case "scale":
            return trn("{count:,} scale", "{count:,} scales", count)
        case "alpha":
            return trn("{count:,} alpha", "{count:,} alphas", count)
        case "mask":
            return trn("{count:,} mask", "{count:,} masks", count)
        case "moment":
            return trn("{count:,} optimizer state", "{count:,} optimizer states", count)
        case "average":
            return trn("{count:,} averaged copy", "{count:,} averaged copies", count)


def _kind_roles(
    name: str,
    end: int,
    rules: Sequence[tuple[Rule, Mapping[str, str]]],
    info: TensorInfo,
    every: Mapping[str, TensorInfo],
) -> NamedRoles:
    path = name[:end]
    for rule, groups in rules:
        if rule.module and not re.search(rule.module, SEPARATORS.split(path[:-1])[-1]):
            continue
        names = [one.format(m=path, up=path[:-1], **groups) for one in rule.beside]
        beside = [one for one in names if one in every and one != name]
        if not names and rule.fits(info, info):
            yield name, rule.role
            return
        for other in beside:
            if rule.fits(info, every[other]):
                yield name, rule.role
                if rule.codes and (every[other].dtype not in CODE_DTYPES):
                    yield (
                        every[other].name,
                        TensorRole(deferred("codes of a quantized weight"), QUANTIZED),
                    )
                return


@lru_cache(4096)
def _rules_for(last: str) -> Sequence[tuple[Rule, Mapping[str, str]]]:
    matches = ((rule, re.fullmatch(rule.name, last, re.ASCII)) for rule in RULES)
    return [(rule, match.groupdict()) for rule, match in matches if match]


def _is_keras_statistic(
    name: str, end: int, info: TensorInfo, every: Mapping[str, TensorInfo]
) -> bool:
    """Return whether a variable of a Keras file, which only a number names, is a statistic.

    The mean and the variance are the last two of the variables of a normalization with its shape.
    """
    if not KERAS_NORM.fullmatch(name[:end]) or not _is_vector(info, info):
        return False
    others = ((str(i), every.get(f"{name[:end]}{i}")) for i in range(4))
    alike = [number for number, other in others if other and other.shape == info.shape]
    return len(alike) > 1 and name[end:] in alike[-2:]


def _average_roles(every: Mapping[str, TensorInfo]) -> NamedRoles:
    groups: dict[str, list[str]] = {}
    joined = "\n".join(every)
    for name in every if any(word in joined for word in AVERAGE_WORDS) else ():
        if match := AVERAGED.search(name):
            groups.setdefault(name[: match.end()], []).append(name)
    if not groups:
        return
    plain = {name: info for name, info in every.items() if not AVERAGED.search(name)}
    for prefix, names in groups.items():
        originals = _originals(prefix, names, plain, every)
        for name in names if originals else ():
            of = originals.get(name, prefix.rstrip("./"))
            yield name, TensorRole(deferred(AVERAGE, name=of), kind="average")


def _originals(
    prefix: str,
    names: Sequence[str],
    plain: Mapping[str, TensorInfo],
    every: Mapping[str, TensorInfo],
) -> dict[str, str]:
    """Return the originals of the copies below a prefix; {} unless each but numbers is a copy."""
    rest = {name: name[len(prefix) :] for name in names if every[name].shape}
    wrapper = WRAPPERS.match(min(rest.values(), default=""))
    if wrapper and all(one.startswith(wrapper[0]) for one in rest.values()):
        rest = {name: one[wrapper.end() :] for name, one in rest.items()}
    if len(rest) < 2:
        return {}
    first = max(rest.values(), key=len)
    bases = [name[: -len(first)] for name in plain if name.endswith(first)]
    squeezed = {SEPARATORS.sub("", WRAPPERS.sub("", name, 1)): name for name in plain}  # LitEma
    lookups = [
        *({name: base + one for name, one in rest.items()} for base in bases),
        {name: squeezed.get(one, "") for name, one in rest.items()},
    ]
    for originals in lookups:
        pairs = [(every[name], plain.get(of)) for name, of in originals.items()]
        if all(of is not None and copy.shape == of.shape for copy, of in pairs):
            return originals
    return {}


def _group_roles(name: str, tensors: Mapping[str, TensorInfo]) -> NamedRoles:
    """Yield the roles of the tensors of a group, given the one with one of `GROUP_SUFFIXES`."""
    parametrized = PARAMETRIZED.fullmatch(name)
    if parametrized:
        group, weight = name.rpartition(".")[0], parametrized["module"] + parametrized["weight"]
        original = f"{group}.original"
        magnitude, direction = f"{original}0", f"{original}1"
        stems = [f"{group}.{step}." for step in range(8)]
    else:
        weight = name[:-2]
        original, magnitude, direction = f"{weight}_orig", f"{weight}_g", f"{weight}_v"
        stems = [weight]
    if name == magnitude:
        if _is_magnitude(tensors[magnitude], tensors.get(direction)):
            yield magnitude, TensorRole(deferred(MAGNITUDE, weight=weight), WEIGHT_NORM_REASON)
            yield direction, TensorRole(deferred(DIRECTION, weight=weight))
        elif parametrized:
            numbered = (f"{original}{index}" for index in count())
            for one in takewhile(tensors.__contains__, numbered):
                yield one, TensorRole(deferred(ORIGINAL, weight=weight))
        return
    stem = next((stem for stem in stems if f"{stem}_u" in tensors), stems[0])
    if _is_singular_vector(tensors.get(f"{stem}_u"), tensors.get(original)):
        yield original, TensorRole(deferred(SPECTRAL, weight=weight))
        for vector in (f"{stem}_u", f"{stem}_v"):
            if vector in tensors:
                yield vector, TensorRole(deferred(ITERATION, weight=weight), ITERATION_REASON)
    elif parametrized:
        yield original, TensorRole(deferred(ORIGINAL, weight=weight))


def _is_magnitude(magnitude: TensorInfo, direction: TensorInfo | None) -> bool:
    """Return whether the shapes allow `magnitude` to be the norms of `direction`.

    The norms are over all dimensions, or over all but one.
    """
    if direction is None or len(direction.shape) < 2:
        return False
    if magnitude.numel == 1:
        return True
    pairs = list(zip(magnitude.shape, direction.shape, strict=False))
    of_one_dimension = sum(size != 1 for size in magnitude.shape) == 1
    same_rank = len(magnitude.shape) == len(direction.shape)
    return same_rank and of_one_dimension and all(one in (1, size) for one, size in pairs)


def _is_singular_vector(vector: TensorInfo | None, weight: TensorInfo | None) -> bool:
    if vector is None or weight is None:
        return False
    return len(vector.shape) == 1 and vector.numel in weight.shape and len(weight.shape) > 1
