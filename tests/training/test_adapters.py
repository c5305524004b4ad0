"""Masks hold in the trainers of other libraries; those that are not installed are skipped."""

import runpy
import sys

import pytest
import torch
from torch import nn

from prune_gui import Recipe, training
from prune_gui.resources import resource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
    ),
]


def recipe(target):
    step = {"method": "l1_unstructured", "targets": [target], "amount": 0.5}
    return Recipe.model_validate({"steps": [step]})


def zero_share(tensor):
    return float((tensor == 0).float().mean())


def test_the_script_for_torch(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(resource("training", "train_torch.py")))
    assert "0 revived" in capsys.readouterr().out
    weights = torch.load("model.pt")
    zeros = sum(int((weights[f"{i}.weight"] == 0).sum()) for i in (0, 2))
    assert zeros == round(0.9 * (16 * 64 + 64 * 4))
    network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    network.load_state_dict(weights)
    optimizer = torch.optim.AdamW(network.parameters())
    assert training.keep(network, optimizer, resume="run").step == 400


def test_the_script_for_lightning(tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(resource("training", "train_lightning.py")))
    checkpoint = torch.load("model.ckpt", weights_only=False)
    assert zero_share(checkpoint["state_dict"]["model.weight"]) == 0.5
    [state] = checkpoint["callbacks"].values()
    assert state["step"] == 128


def test_fitting_with_lightning_goes_on_from_a_checkpoint(tmp_path):
    lightning = pytest.importorskip("lightning")
    from prune_gui.training.lightning import KeepMasks

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.model = nn.Linear(16, 4)

        def training_step(self, batch, _):
            return self.model(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 0.1)

    def fit(epochs, **options):
        masks = KeepMasks(recipe("model.weight"), schedule=training.iterative([0.25, 0.5], every=8))
        trainer = lightning.Trainer(
            max_epochs=epochs, callbacks=[masks], logger=False, enable_progress_bar=False,
            enable_checkpointing=False, accelerator="cpu", enable_model_summary=False,
        )  # fmt: skip
        module = Module()
        trainer.fit(module, torch.utils.data.DataLoader(torch.randn(24, 16), 4), **options)
        return trainer, module, masks

    trainer, module, masks = fit(1)
    assert zero_share(module.model.weight) == 0.25
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    _, module, masks = fit(2, ckpt_path=tmp_path / "half.ckpt", weights_only=False)
    assert masks.kept.step == 12
    assert zero_share(module.model.weight) == 0.5


def test_the_script_for_transformers(tmp_path, monkeypatch, llama_folder):
    pytest.importorskip("accelerate")
    text = tmp_path / "text.txt"
    text.write_text("a b c d\n" * 24, encoding="utf-8")
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["train", str(llama_folder), str(text), str(out)])
    runpy.run_path(str(resource("training", "train_huggingface.py")))
    from safetensors.torch import load_file

    before, after = (load_file(folder / "model.safetensors") for folder in (llama_folder, out))
    name = "model.layers.0.self_attn.q_proj.weight"
    assert zero_share(before[name]) == 0.5
    assert torch.equal(before[name] == 0, after[name] == 0)
    assert not torch.equal(before[name], after[name])


def test_adapters_of_peft_are_merged_under_the_masks(llama_folder):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(llama_folder)
    name = "model.layers.0.self_attn.q_proj.weight"
    pruned = base.get_parameter(name) == 0
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"]))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 0.1)
    kept = training.keep(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        ids = torch.randint(0, 8, (2, 6))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    merged = model.merge_and_unload()
    weight = merged.get_parameter(name)
    assert zero_share(weight) < 0.1
    dense = weight.detach().clone()
    kept.apply(merged)
    assert torch.equal(weight, dense.masked_fill(pruned, 0))


def test_accelerate_saves_and_loads_masks(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    kept = training.keep(model, optimizer, recipe("weight"))
    accelerator.register_for_checkpointing(kept)
    for _ in range(6):
        with accelerator.accumulate(model):
            accelerator.backward(model(torch.randn(8, 16)).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    assert kept.step == 3
    assert [(one.pruned, one.revived) for one in kept.report()] == [(32, 0)]
    accelerator.save_state(tmp_path)
    kept.prune(recipe("weight"))
    accelerator.load_state(tmp_path)
    assert [(one.pruned, one.revived) for one in kept.report()] == [(32, 0)]
