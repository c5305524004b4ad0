"""Plug-in files on the command line: naming a file is consent to run it."""

import json
import runpy
import sys

import pytest
import torch
from command_line import prune_gui
from python_process import python
from safetensors.torch import load_file
from small_tokenizers import TEXT, tokenizer_json

from prune_gui.cli import program
from prune_gui.cli.methods import EXAMPLES

RECIPE = 'steps: [{method: nearest_mean, targets: ["*.conv*.weight"], amount: 0.5}]\n'


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path / "recipe.yaml"


@pytest.mark.slow
def test_apply_uses_the_methods_of_a_file(demo_checkpoint, nearest_mean, recipe, tmp_path):
    out = tmp_path / "out.safetensors"
    own = ["--methods", nearest_mean]
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out, *own, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    printed = json.loads(result.stdout)
    zeros = sum(int((t == 0).sum()) for n, t in load_file(out).items() if ".conv" in n)
    assert zeros == printed["pruned"] == 72 + 2304 + 9216


@pytest.mark.slow
def test_methods_lists_the_methods_of_several_files_with_their_sources(nearest_mean, plugin_file):
    other = plugin_file(
        """
        print("This is not JSON.")
        class Nothing(prune.BasePruningMethod):
            PRUNING_TYPE = "global"
            def compute_mask(self, t, default_mask):
                print("Neither is this.")
                return default_mask
        """.replace("\n        ", "\n")
    )
    own = ["--methods", nearest_mean, "--methods", other]
    printed = json.loads(prune_gui("methods", "--json", *own).stdout)
    assert printed["nearest_mean"]["source"] == str(nearest_mean)
    assert printed["nearest_mean"]["properties"].keys() == {"amount", "scope", "seed"}
    assert printed["nothing"]["source"] == str(other)
    assert printed["identity"]["source"] == "built-in"
    text = prune_gui("methods", *own).stdout
    assert f"nearest_mean  (from {nearest_mean})\n    Prune the weights nearest" in text


def test_the_rank_of_nan_is_documented():
    assert "NaN above infinity" in prune_gui("methods").stdout
    printed = json.loads(prune_gui("methods", "--json").stdout)
    ranked = ["l1_unstructured", "ln_structured", "lamp", "erk", "n_m", "block"]
    assert all("NaN above infinity" in " ".join(printed[m]["description"].split()) for m in ranked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "called sys.exit"),
        ("import os; os.write(1, b'')", "defines no pruning method"),
    ],
)
def test_an_unusable_plugin_file_is_one_line_on_standard_error(
    demo_checkpoint, recipe, plugin_file, tmp_path, source, message
):
    path, out = plugin_file(source), tmp_path / "out.safetensors"
    result = prune_gui("apply", recipe, demo_checkpoint, "-o", out, "--methods", path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert message in result.stderr
    assert str(path) in result.stderr
    assert not out.exists()


def run(*arguments, cwd):
    result = python(*arguments, cwd=cwd)
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
