"""Fewer hidden channels, against models that transformers builds with a smaller hidden size.

What differs between two such models on the meta device are the members of the groups. The compact
form must be the state dict that is sliced by hand, in the folder of a model that loads it.
"""

import re

import pytest
import torch
from compact_models import compacted
from safetensors.torch import load_file, save_file
from transformer_families import FAMILIES, SPACES, load_model, outputs

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.architecture.groups import coupled_groups
from prune_gui.errors import RecipeError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
HIDDEN = "hidden"
CASES = [family for family, names in SPACES.items() if HIDDEN in names.split()]
SIZE_FIELDS = ("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "word_embed_proj_dim")
HEAD_FIELDS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "encoder_attention_heads",
    "decoder_attention_heads",
)
HEAD_SPACES = ("heads", "encoder_heads", "decoder_heads")
SEPARATE_EXPERTS = {"mixtral", "qwen2-moe", "qwen3-moe"}
"""Families whose files have other tensors than the model, with these dimensions."""
EXPERT_DIMS = (
    (r"\.experts\.[0-9]+\.(gate_proj|up_proj|w1|w3)\.weight", 1),
    (r"\.experts\.[0-9]+\.(down_proj|w2)\.weight", 0),
    (r"\.block_sparse_moe\.gate\.weight", 1),
)
GONE = (0, 3, 4, 7, 9, 10, 13, 14)
GONE_HEADS = {4: (1, 2), 8: (1, 3, 4, 7)}
"""By the number of all heads."""
ENCODER_OF_FOUR = re.compile(r"encoder\.layers\.[0-9]+\.")
"""Blocks with four heads."""
WITHOUT = {"method": "listed_units", "space": HIDDEN, "units": list(GONE)}
TIED_TO_HEADS = [
    family
    for family in CASES
    if set(HEAD_SPACES) & set(SPACES[family].split()) and not family.startswith("t5")
]
"""Families whose heads have the size of the hidden channels divided by their number."""
HEAD_DIMS = (  # of the tensors of TIED_TO_HEADS
    (r"\.(query|key|value|[qkv]_proj|[qkv]_lin)\.(weight|bias)", 0),
    (r"attention\.output\.dense\.weight|(attn|attention)\.(out_proj|out_lin)\.weight", 1),
    (r"attn\.c_attn\.weight", 1),
    (r"attn\.c_attn\.bias|attn\.c_proj\.weight", 0),
)


def smaller_config(family, folder):
    """Return the config of a family with half the hidden channels, and heads of the old size."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    fields = [*SIZE_FIELDS]
    if family in TIED_TO_HEADS:
        fields += HEAD_FIELDS
    elif hasattr(config, "num_key_value_heads"):
        heads = config.num_attention_heads
        config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    if family == "gpt2":
        config.n_inner = 4 * config.n_embd
    for field in fields:
        if field in config.to_dict():
            setattr(config, field, config.to_dict()[field] // 2)
    return config


def meta_shapes(family, config):
    """Return the shapes of the tensors of a model by name."""
    import transformers

    with torch.device("meta"):
        model = getattr(transformers, FAMILIES[family][0])(config)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def differing(family, folder):
    """Return the names and dimensions that have half the length in the smaller model."""
    import transformers

    before = meta_shapes(family, transformers.AutoConfig.from_pretrained(folder))
    after = meta_shapes(family, smaller_config(family, folder))
    assert before.keys() == after.keys()
    found = set()
    for name, shape in before.items():
        for dim, (old, new) in enumerate(zip(shape, after[name], strict=True)):
            assert new in (old, old // 2)
            if new != old:
                found.add((name, dim))
    return found


def hidden_dims(family, folder, names):
    """Return the pairs of a name in the file and a dimension that are to have half the length."""
    found = differing(family, folder)
    if family in SEPARATE_EXPERTS:
        found |= {(name, dim) for name in names for own, dim in EXPERT_DIMS if re.search(own, name)}
    return {(name, dim) for name, dim in found if not is_head_dim(family, name, dim)}


def is_head_dim(family, name, dim):
    """Return whether heads divide a dimension of a tensor."""
    return family in TIED_TO_HEADS and any(
        dim == own and re.search(pattern, name) for pattern, own in HEAD_DIMS
    )


@pytest.mark.parametrize("family", CASES)
def test_the_members_are_the_dimensions_that_a_smaller_model_has_smaller(saved_family, family):
    folder = saved_family(family)
    with open_checkpoint(folder) as checkpoint:
        (group,) = coupled_groups(checkpoint, HIDDEN)
        names = list(checkpoint.tensors)
    members = [(member.name, member.dim) for member in group.members]
    assert len(set(members)) == len(members)
    assert {(member.offset, member.width) for member in group.members} == {(0, 1)}
    expected = hidden_dims(family, folder, names)
    assert set(members) == {(name, dim) for name, dim in expected if name in names}


def hand_sliced(family, folder, tensors):
    """Return the tensors without GONE and, in families that need it, without half the heads."""
    sliced = {}
    dims = hidden_dims(family, folder, tensors)
    for name, tensor in tensors.items():
        result = tensor
        for dim, length in enumerate(tensor.shape):
            if (name, dim) in dims:
                keep = [i for i in range(length) if i not in GONE]
            elif is_head_dim(family, name, dim):
                number = 4 if ENCODER_OF_FOUR.search(name) else 8
                parts = 3 if "c_attn" in name else 1
                width = length // parts // number
                heads = [i // width % number for i in range(length)]
                keep = [i for i in range(length) if heads[i] not in GONE_HEADS[number]]
            else:
                continue
            result = result.index_select(dim, torch.tensor(keep))
        sliced[name] = result.contiguous()
    return sliced


def head_steps(family):
    """Return the steps that prune half the heads, in families that need it."""
    spaces = set(HEAD_SPACES) & set(SPACES[family].split())
    return [
        {
            "method": "listed_units",
            "space": space,
            "units": sorted(GONE_HEADS[4 if "enc" in space else 8]),
        }
        for space in sorted(spaces)
        if family in TIED_TO_HEADS
    ]


@pytest.mark.parametrize("family", CASES)
def test_a_model_with_half_the_hidden_channels_is_the_one_that_is_sliced_by_hand(
    saved_family, family, tmp_path
):
    source = saved_family(family)
    compacted(source, tmp_path / "compact", WITHOUT, *head_steps(family))
    assert not list((tmp_path / "compact").glob("load_*.py"))
    by_hand = hand_sliced(family, source, load_file(source / "model.safetensors"))
    found = load_file(tmp_path / "compact" / "model.safetensors")
    assert found.keys() == by_hand.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in by_hand.items())
    smaller_config(family, source).save_pretrained(tmp_path / "by hand")
    save_file(by_hand, tmp_path / "by hand" / "model.safetensors", {"format": "pt"})
    one, other = (load_model(family, tmp_path / name) for name in ("compact", "by hand"))
    for model in (one, other):
        # Mapped weights lie where the header of their file ends, and some kernels add up weights in
        # another order there; copies lie alike.
        copies = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(copies, assign=True)
    assert torch.equal(outputs(one), outputs(other))
    assert outputs(one).isfinite().all()


@pytest.mark.parametrize("family", TIED_TO_HEADS)
def test_hidden_channels_and_heads_that_do_not_fit_stay(saved_family, family, tmp_path):
    heads = head_steps(family)
    cases = [[WITHOUT], heads, [{**WITHOUT, "units": [1, 2]}, *heads]]
    for steps in cases:
        with pytest.raises(RecipeError, match="same share of the") as raised:
            compacted(saved_family(family), tmp_path / "compact", *steps)
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "compact").exists()
    neurons = SPACES[family].split()[0]
    step = {"method": "listed_units", "space": neurons, "units": [1]}
    compacted(saved_family(family), tmp_path / "compact", step, WITHOUT)
    before = load_file(saved_family(family) / "model.safetensors")
    after = load_file(tmp_path / "compact" / "model.safetensors")
    changed = {name for name, tensor in after.items() if tensor.shape != before[name].shape}
    with open_checkpoint(saved_family(family)) as checkpoint:
        groups = coupled_groups(checkpoint, neurons)
    assert changed == {member.name for group in groups for member in group.members}
    load_model(family, tmp_path / "compact")


@pytest.mark.parametrize("family", ["llama", "qwen3-moe"])
def test_other_units_go_with_the_hidden_channels(saved_family, family, tmp_path):
    steps = [
        WITHOUT,
        {"method": "coupled", "space": "ffn", "amount": 5},
        {"method": "coupled", "space": "kv_groups", "amount": 2},
        {"method": "layers", "layers": [2]},
    ]
    compacted(saved_family(family), tmp_path / "out", *steps)
    config = load_model(family, tmp_path / "out").config
    found = config.hidden_size, config.intermediate_size, config.num_key_value_heads
    assert (*found, config.num_hidden_layers) == (8, 7, 2, 3)


def test_the_neurons_of_gpt2_keep_their_number_or_lose_some(saved_family, tmp_path):
    steps = [WITHOUT, *head_steps("gpt2")]
    compacted(saved_family("gpt2"), tmp_path / "a", *steps)
    compacted(saved_family("gpt2"), tmp_path / "b", *steps, {"method": "coupled", "amount": 60})
    for name, inner in (("a", 64), ("b", 4)):
        model = load_model("gpt2", tmp_path / name)
        assert model.config.n_inner == inner


def test_a_size_that_the_heads_do_not_divide_is_not_written(saved_family, tmp_path):
    two = {**WITHOUT, "units": [0, 1]}
    with pytest.raises(RecipeError, match="hidden_size would be 14, which is not a multiple of 8"):
        compacted(saved_family("llama"), tmp_path / "out", two)
    heads = {"method": "listed_units", "space": "kv_groups", "units": [0, 1, 3]}
    compacted(
        saved_family("llama"), tmp_path / "out", two, heads
    )  # 2 heads, which 14 is a multiple of
    load_model("llama", tmp_path / "out")


def test_scores_are_means_of_the_norms_in_all_tensors_once_each(saved_family):
    with open_checkpoint(saved_family("llama")) as checkpoint:
        (group,) = coupled_groups(checkpoint, HIDDEN)
        step = {"method": "coupled", "space": HIDDEN, "amount": 6, "targets": ["*embed*"]}
        resolution = resolve(Recipe(steps=[step]), checkpoint)
        pruned = ~resolution.mask("model.embed_tokens.weight").any(0)
        norms = [
            checkpoint.read(member.name).movedim(member.dim, 0).flatten(1).square().mean(1).sqrt()
            for member in group.members
            if len(checkpoint.tensors[member.name].shape) > 1
        ]
        lowest = torch.stack(norms).mean(0).argsort()[:6]
        assert pruned.nonzero().flatten().tolist() == sorted(lowest.tolist())
        assert set(resolution.outcomes[0].pruned) == {member.name for member in group.members}
