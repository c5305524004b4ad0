"""The tables of transformer families against the models themselves.

That models load without units, and compute the same, is tested in
`tests/end_to_end/test_compact_families.py`.
"""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformer_families import FAMILIES, SPACES, load_model, outputs

from prune_gui import open_checkpoint
from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.tables import own_tables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
LIKE_OTHERS = (
    *("esm", "umt5", "gpt-bigcode", "siglip-vision", "t5gemma"),  # have names of another family
    *("resnet", "resnet-basic"),  # have numbers inside of blocks
    "mamba2",  # has no units inside of blocks
)
"""Families that only config.json tells."""
TOKENS = "tokens"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_its_spaces(saved_family, family):
    with open_checkpoint(saved_family(family) / "model.safetensors") as checkpoint:
        assert spaces(checkpoint).keys() == set(SPACES[family].split())


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in LIKE_OTHERS])
def test_a_family_has_the_same_groups_without_its_config(saved_family, family, tmp_path):
    source = saved_family(family) / "model.safetensors"
    (tmp_path / source.name).hardlink_to(source)
    with open_checkpoint(source) as known, open_checkpoint(tmp_path / source.name) as unknown:
        found = spaces(unknown)
        assert any(rule.members for rule in found.values())
        for space in found:
            assert coupled_groups(unknown, space) == coupled_groups(known, space)


@pytest.mark.parametrize("family", [name for name in FAMILIES if TOKENS in SPACES[name].split()])
def test_a_model_without_some_tokens_gives_the_same_outputs_for_the_others(
    saved_family, family, tmp_path
):
    source = saved_family(family)
    with open_checkpoint(source / "model.safetensors") as checkpoint:
        (group,) = coupled_groups(checkpoint, TOKENS)
        rules = spaces(checkpoint)[TOKENS].config
    kept = np.random.default_rng(0).permutation(group.size) < group.size // 2
    kept[:3] = True  # special tokens, which stay
    old_ids = torch.from_numpy(np.flatnonzero(kept))
    tensors = load_file(source / "model.safetensors")
    for member in group.members:
        tensors[member.name] = tensors[member.name].index_select(member.dim, old_ids)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    for rule in rules:
        holder = config.get(rule.section, config)
        assert rule.value in ("units", "fixed")
        if rule.value == "units":
            key = next((key for key in (rule.field, *rule.aliases) if key in holder), rule.field)
            holder[key] = len(old_ids)
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokens = torch.arange(3, 15).reshape(2, 6) % len(old_ids)
    pruned = outputs(load_model(family, tmp_path), tokens)
    expected = outputs(load_model(family, source), old_ids[tokens])
    if expected.shape[-1] == group.size:
        expected = expected[..., old_ids]
    torch.testing.assert_close(pruned, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model_type", ["gemma2", "gemma3_text", "gpt_oss"])
def test_a_cycle_is_the_default_of_the_model(model_type):
    from transformers import AutoConfig

    (table,) = (table for table in own_tables() if model_type in table.model_types)
    (rule,) = (rule for rule in table.spaces["layers"].config if rule.cycle)
    config = AutoConfig.for_model(model_type, num_hidden_layers=13)
    assert getattr(config, rule.field) == [rule.cycle[i % len(rule.cycle)] for i in range(13)]
