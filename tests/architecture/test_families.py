"""The tables of transformer families against the models themselves.

Units are removed from a checkpoint and its config.json as the table says. The model that is built
from the new config.json must have exactly the tensors that remain.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformer_families import FAMILIES, SPACES, load_model, outputs, save_model

from prune_gui import open_checkpoint
from prune_gui.architecture.groups import coupled_groups, spaces
from prune_gui.architecture.tables import own_tables
from prune_gui.recipe.compaction.network import architecture_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
LIKE_OTHERS = ("esm", "umt5", "gpt-bigcode", "siglip-vision")
"""Families that have the names of another one, so that only config.json tells which it is."""
ROUTER_BIASES = (".router.bias", ".e_score_correction_bias")
TOKENS = "tokens"
HIDDEN = "hidden"
"""The space of `test_hidden.py`."""
CASES = [
    (family, space)
    for family, names in SPACES.items()
    for space in names.split()
    if space not in (TOKENS, HIDDEN)
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function that gives the folder of a family's model."""
    folders = {}

    def folder_of(family):
        if family not in folders:
            folders[family] = tmp_path_factory.mktemp(family)
            save_model(family, folders[family])
        return folders[family]

    return folder_of


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_its_spaces(saved, family):
    with open_checkpoint(saved(family) / "model.safetensors") as checkpoint:
        assert spaces(checkpoint).keys() == set(SPACES[family].split())


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in LIKE_OTHERS])
def test_a_family_has_the_same_groups_without_its_config(saved, family, tmp_path):
    source = saved(family) / "model.safetensors"
    (tmp_path / source.name).hardlink_to(source)
    with open_checkpoint(source) as known, open_checkpoint(tmp_path / source.name) as unknown:
        found = spaces(unknown)
        assert any(rule.members for rule in found.values())
        for space in found:
            assert coupled_groups(unknown, space) == coupled_groups(known, space)


@pytest.mark.parametrize(("family", "space"), CASES)
def test_a_model_without_some_units_loads_and_equals_the_masked_one(saved, family, space, tmp_path):
    source = saved(family)
    with open_checkpoint(source / "model.safetensors") as checkpoint:
        rule = spaces(checkpoint)[space]
        groups = coupled_groups(checkpoint, space)
        known = architecture_of(checkpoint).counts
    tensors = load_file(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    runs = known[rule.runs] if rule.runs else 1
    random = np.random.default_rng(0)
    kept = {g.label: half_of(g.size // runs, runs, random) for g in groups}
    masked, compact = removed(tensors, groups, kept)
    if not rule.loadable or not rule.config or rule.loadable_with:
        masked_model(family, source, masked, tmp_path)
        return
    for config_rule in rules_for(config["model_type"], rule):
        model_config = config.get(config_rule.section, config)
        apply_rule(model_config, config_rule, kept[groups[0].label], known)
    write(tmp_path / "compact", compact, config)
    pruned = load_model(family, tmp_path / "compact")
    router_biases = [name for name in masked if name.endswith(ROUTER_BIASES)]
    for name in router_biases:
        if space == "experts":
            label = name.rpartition(".mlp.")[0]
            masked[name][torch.from_numpy(~kept[label])] = -1e4  # never picked
    if rule.members and (space != "experts" or router_biases):
        expected = outputs(masked_model(family, source, masked, tmp_path))
        original = outputs(load_model(family, source))
        assert not torch.allclose(expected, original, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(outputs(pruned), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", [name for name in FAMILIES if TOKENS in SPACES[name].split()])
def test_a_model_without_some_tokens_gives_the_same_outputs_for_the_others(saved, family, tmp_path):
    source = saved(family)
    with open_checkpoint(source / "model.safetensors") as checkpoint:
        (group,) = coupled_groups(checkpoint, TOKENS)
        rules = spaces(checkpoint)[TOKENS].config
    config = json.loads((source / "config.json").read_text())
    kept = half_of(group.size, 1, np.random.default_rng(0))
    kept[:3] = True  # special tokens, which stay
    _, compact = removed(load_file(source / "model.safetensors"), [group], {group.label: kept})
    for rule in rules:
        apply_rule(config.get(rule.section, config), rule, kept, {})
    write(tmp_path / "compact", compact, config)
    old_ids = torch.from_numpy(np.flatnonzero(kept))
    tokens = torch.arange(3, 15).reshape(2, 6) % len(old_ids)
    pruned = outputs(load_model(family, tmp_path / "compact"), tokens)
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


def half_of(length, runs, random):
    """Return a mask of random units, of which half remain in each of several runs."""
    return np.concatenate([random.permutation(length) < length // 2 for _ in range(runs)])


def masked_model(family, source, masked, folder):
    """Load a model with zeros in place of the removed units."""
    write(folder / "masked", masked, json.loads((source / "config.json").read_text()))
    return load_model(family, folder / "masked")


def write(folder, tensors, config):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


def removed(tensors, groups, kept):
    """Return the tensors with zeros in place of units, and those without the units."""
    masked = {name: tensor.clone() for name, tensor in tensors.items()}
    keep_along = {}
    renamed = {name: name for name in tensors}
    for group in groups:
        new_number = np.cumsum(kept[group.label]) - 1
        for member in group.members:
            tensor = masked[member.name]
            if member.dim is None:
                if not kept[group.label][member.offset]:
                    tensor.zero_()
                    renamed.pop(member.name)
                elif member.number_at is not None:
                    parts = member.name.split(".")
                    parts[member.number_at] = str(new_number[member.offset])
                    renamed[member.name] = ".".join(parts)
                continue
            length = tensor.shape[member.dim]
            pruned = torch.from_numpy(
                group.channels(member.name, member.dim, length, ~kept[group.label])
            )
            tensor.movedim(member.dim, 0)[pruned] = 0
            keep_along[member.name, member.dim] = ~pruned
    compact = {}
    for name, new_name in renamed.items():
        tensor = tensors[name]
        for dim in range(tensor.ndim):
            if (name, dim) in keep_along:
                tensor = tensor.movedim(dim, 0)[keep_along[name, dim]].movedim(0, dim)
        compact[new_name] = tensor.contiguous()
    return masked, compact


def rules_for(model_type, rule):
    """Return the first rule for each field that is for a type of models."""
    own = [each for each in rule.config if not each.model_types or model_type in each.model_types]
    return {each.field: each for each in reversed(own)}.values()


def apply_rule(config, rule, kept, known):
    """Change a field of a config.json, as `ConfigRule` describes."""
    field = next((key for key in (rule.field, *rule.aliases) if key in config), rule.field)
    match rule.value:
        case "units":
            config[field] = int(kept.sum())
        case "proportional":
            config[field] = known[rule.count] * int(kept.sum()) // len(kept)
        case "fixed":
            assert kept[: config[field] + 1].all()
        case "pin":
            config[field] = known[rule.count]
        case "leading":
            if config.get(field) is not None:
                config[field] = int(kept[: config[field]].sum())
        case "list":
            if config.get(field) is not None:
                config[field] = [x for x, keep in zip(config[field], kept, strict=True) if keep]
        case "indices":
            new_number = np.cumsum(kept) - 1
            config[field] = [int(new_number[i]) for i in config.get(field) or () if kept[i]]
    assert not rule.divides or known[rule.divides] % config[field] == 0
