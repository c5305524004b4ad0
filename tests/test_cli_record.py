"""`prune-gui record`: the scripts, and what they record."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from small_tokenizers import TEXT, tokenizer_json

from prune_gui.cli import program
from prune_gui.cli.methods import EXAMPLES


def run(*arguments, cwd):
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=100, cwd=cwd,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def example(name, capsys):
    assert program.cli.main(["record", "--example", name], standalone_mode=False) is None
    return capsys.readouterr().out


def prune(recipe, checkpoint, out):
    (out.parent / "recipe.yaml").write_text(recipe)
    arguments = ["apply", out.parent / "recipe.yaml", checkpoint, "-o", out]
    run("-m", "prune_gui", *arguments, cwd=out.parent)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_is_a_script_that_tells_how_to_prune_by_the_files(name, capsys):
    script = example(name, capsys)
    compile(script, name, "exec")
    assert "prune_gui.record(" in script
    assert "prune-gui apply recipe.yaml" in script
    assert "importance: " in script


def test_torch_is_the_default(capsys):
    assert program.cli.main(["record", "--example"], standalone_mode=False) is None
    assert capsys.readouterr().out == example("torch", capsys)


@pytest.mark.slow
def test_the_example_for_torch_runs_and_its_recipe_prunes(tmp_path, capsys):
    (tmp_path / "script.py").write_text(example("torch", capsys))
    printed = run("script.py", cwd=tmp_path).splitlines()
    assert printed == ["statistics/activations.safetensors", "statistics/obd.safetensors"]
    recipe = (
        'steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5, scope: row, '
        "importance: statistics/activations.safetensors}]"
    )
    prune(recipe, tmp_path / "model.pt", tmp_path / "pruned.pt")
    weight = torch.load(tmp_path / "pruned.pt")["0.weight"]
    assert (weight == 0).sum(1).tolist() == [8] * 32


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_example_for_hugging_face_runs_and_its_files_prune(
    family, tmp_path, capsys, monkeypatch
):
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # it leaves a thread

    folder = tmp_path / "model"
    config = AutoConfig.for_model(
        family, vocab_size=400, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, n_embd=16, n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json("byte_bpe"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (tmp_path / "texts.txt").write_text("\n".join(TEXT))
    (tmp_path / "script.py").write_text(example("huggingface", capsys))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["script.py", "model", "texts.txt", "out"])
    runpy.run_path("script.py")
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["out/activations.safetensors", "out/taylor.safetensors"]

    name = {
        "llama": "model.layers.1.mlp.down_proj.weight",
        "gpt2": "transformer.h.1.mlp.c_proj.weight",
    }[family]
    shape = load_file(folder / "model.safetensors")[name].shape
    scores = load_file(tmp_path / "out" / "activations.safetensors")[name]
    assert scores.shape == ((24,) if family == "llama" else shape)  # GPT-2 has inputs in rows
    for statistic in ("activations", "taylor"):
        recipe = (
            f"steps: [{{method: l1_unstructured, targets: [{name}], amount: 0.5, "
            f"importance: out/{statistic}.safetensors}}]"
        )
        prune(recipe, folder, tmp_path / f"{statistic}.safetensors")
        pruned = load_file(tmp_path / f"{statistic}.safetensors")[name]
        assert (pruned == 0).sum() == shape.numel() // 2


@pytest.mark.slow
@pytest.mark.very_slow
def test_a_recorded_bert_is_pruned_with_all_its_matrices(tmp_path):
    from transformers import BertConfig, BertForMaskedLM

    import prune_gui

    torch.manual_seed(0)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=12,
        )
    ).eval()  # fmt: skip
    model.save_pretrained(tmp_path / "model")
    with prune_gui.record(model, "activations", "fisher", "obd", "taylor") as recording:
        for _ in range(4):
            ids = torch.randint(50, (1, 8))
            model(input_ids=ids, labels=ids).loss.backward()
    recording.save(tmp_path / "statistics")
    for statistic in ("activations", "fisher", "obd", "taylor"):
        recipe = (
            'steps: [{method: l1_unstructured, targets: ["*.weight", "!*LayerNorm*"], '
            f"amount: 0.5, scope: global, importance: statistics/{statistic}.safetensors}}]"
        )
        out = tmp_path / f"{statistic}.safetensors"
        prune(recipe, tmp_path / "model", out)
        pruned, original = load_file(out), load_file(tmp_path / "model" / "model.safetensors")
        changed = [name for name in original if not torch.equal(pruned[name], original[name])]
        assert "bert.encoder.layer.1.output.dense.weight" in changed
        assert all(name.endswith(".weight") for name in changed)
