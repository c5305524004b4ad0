"""The recipe as a torch script, which writes the same tensors as `export`."""

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from applied import applied, exported
from safetensors.torch import load_file, save_file

from prune_gui import load_methods
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.script import command_line, python_script

L1 = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.4}
LN = {"method": "ln_structured", "targets": ["*.weight", "!c*"], "amount": 2, "n": 1, "dim": 1}
OURS = "Not available in torch.nn.utils.prune"


def tensors() -> dict[str, torch.Tensor]:
    """Few distinct values, so that many are equal, of several dtypes."""
    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.randint(-3, 4, shape, generator=generator) / 4

    return {
        "a.weight": some(8, 12),
        "b.weight": some(6, 8).to(torch.bfloat16),
        "b.bias": some(6),
        "c.weight": some(4, 3, 3, 3).to(torch.float16),
        "steps": torch.arange(3),
    }


def run(script: str, folder: Path) -> dict[str, torch.Tensor]:
    program = folder / "script.py"
    program.write_text(script, encoding="utf-8")
    runpy.run_path(str(program))
    return load_file(folder / "torch.safetensors")


def both(source: Path, folder: Path, recipe: Recipe) -> tuple[str, dict, dict]:
    """Return the script, the file that it writes, and the file that `export` writes."""
    with applied(source, recipe) as resolution:
        script = python_script(resolution, folder / "torch.safetensors")
        export(resolution, folder / "ours.safetensors")
    made, ours = run(script, folder), load_file(folder / "ours.safetensors")
    if "save_like" in script.splitlines()[-1]:
        octets = [(folder / f"{name}.safetensors").read_bytes() for name in ("torch", "ours")]
        assert octets[0] == octets[1]
    return script, made, ours


def assert_same_bytes(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert found[name].dtype == wanted[name].dtype
        assert found[name].view(torch.uint8).equal(wanted[name].view(torch.uint8)), name


def test_steps_that_torch_supports_need_only_torch_and_give_the_same_bytes(tmp_path):
    save_file(tensors(), tmp_path / "model.safetensors")
    save_file({"c.weight": torch.ones(4, 3, 3, 3).tril()}, tmp_path / "masks.safetensors")
    steps = [
        L1,
        {**L1, "scope": "global", "amount": 0.3},
        {**L1, "enabled": False, "amount": 1.0},
        {**L1, "amounts": {"a.*": 7, "b.*": 0.5}},
        {**LN, "amounts": {"*": 0.25, "b.*": 1}},
        LN,
        {**LN, "n": "inf", "dim": 0, "amount": 0.3},
        {"method": "identity", "targets": ["b.bias"]},
        {"method": "custom_from_mask", "targets": ["c.*"], "mask": "masks.safetensors"},
        {"method": "channels", "targets": ["a.*"], "channels": [1, 5], "dim": 0},
    ]
    recipe = Recipe.from_yaml(Recipe(steps=steps).to_yaml(), folder=tmp_path)
    script, found, wanted = both(tmp_path / "model.safetensors", tmp_path, recipe)
    assert "import prune_gui" not in script
    assert "save_like" in script.splitlines()[-1]
    assert script.count("from pathlib import Path\n") == 1
    assert_same_bytes(found, wanted)


@pytest.mark.parametrize(
    "step",
    [
        {**L1, "scope": "row"},
        {**L1, "max_sparsity": 0.2},
        {**L1, "amount_of": "reach"},
        {"method": "lamp", "targets": ["*.weight"], "amount": 0.5},
        {"method": "random_unstructured", "targets": ["*.weight"], "amount": 0.5, "seed": 3},
        {**LN, "scope": "global"},
    ],
    ids=lambda step: f"{step['method']}-{len(step)}-{step.get('scope')}",
)
def test_steps_that_torch_does_not_support_call_this_package_and_state_that(tmp_path, step):
    save_file(tensors(), tmp_path / "model.safetensors")
    recipe = Recipe(steps=[{**L1, "amount": 0.2}, step, {**L1, "amount": 0.2}])
    script, found, wanted = both(tmp_path / "model.safetensors", tmp_path, recipe)
    assert script.count(OURS) == 1
    assert_same_bytes(found, wanted)


def test_elements_pruned_in_the_file_stay_pruned(tmp_path):
    save_file(tensors(), tmp_path / "model.safetensors")
    pairs = tmp_path / "pairs.safetensors"
    exported(tmp_path / "model.safetensors", pairs, Recipe(steps=[L1]), "reparametrized")
    recipe = Recipe(steps=[LN, {**L1, "scope": "global"}], start="zeros")
    script, found, wanted = both(pairs, tmp_path, recipe)
    assert OURS not in script
    assert_same_bytes(found, wanted)


def test_the_state_dict_inside_a_torch_file_is_found_and_tied_weights_stay_equal(tmp_path):
    state = tensors()
    state["tied.weight"] = state["a.weight"]
    torch.save({"epoch": 3, "model": {"inner": state}}, tmp_path / "model.pt")
    with applied(tmp_path / "model.pt", Recipe(steps=[L1])) as resolution:
        found = run(python_script(resolution, tmp_path / "torch.safetensors"), tmp_path)
        mask = resolution.mask("a.weight")
    assert found["tied.weight"].equal(found["a.weight"])
    assert found["a.weight"].equal(state["a.weight"].where(mask, torch.zeros(())))


def test_floats_of_eight_bits_are_pruned_too(tmp_path):
    save_file({"w.weight": torch.arange(16.0).to(torch.float8_e4m3fn)}, tmp_path / "m.safetensors")
    _, found, wanted = both(tmp_path / "m.safetensors", tmp_path, Recipe(steps=[L1]))
    assert_same_bytes(found, wanted)


@pytest.mark.parametrize(
    "name", ['""";raise SystemExit(7);""".safetensors', 'a\n"""\nraise.safetensors']
)
def test_a_file_name_cannot_inject_code_into_the_script(tmp_path, name):
    save_file({"a.weight": torch.randn(3, 4)}, tmp_path / name)
    with applied(tmp_path / name, Recipe(steps=[L1])) as resolution:
        script = python_script(resolution, tmp_path / "torch.safetensors")
    assert not any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(script)))
    run(script, tmp_path)


@pytest.mark.parametrize(
    "special",
    [
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        lambda tensor: tensor.to("meta"),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
    ],
    ids=["COO", "CSR", "meta", "quantized"],
)
@pytest.mark.filterwarnings("ignore")  # those of torch for rare tensors
def test_tensors_that_the_script_cannot_write_are_refused_in_one_line(tmp_path, special):
    torch.save({"a.weight": torch.randn(3, 4), "b": special(torch.eye(4))}, tmp_path / "m.pt")
    with (
        applied(tmp_path / "m.pt", Recipe(steps=[L1])) as resolution,
        pytest.raises(CheckpointError, match=r"'b' .* cannot be stored in o\.safetensors"),
    ):
        python_script(resolution, tmp_path / "o.safetensors")


MASK = {"method": "custom_from_mask", "targets": ["a.weight"], "mask": "masks.safetensors"}


def run_in_shell(line: str, folder: Path) -> None:
    """Run a command in a shell in which prune-gui is this program."""
    program = folder / "prune-gui"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m prune_gui "$@"\n')
    program.chmod(0o755)
    subprocess.run(["sh", "-ec", f'PATH="{folder}:$PATH"; {line}'], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a here document needs a POSIX shell")
@pytest.mark.parametrize("saved", [True, False])
def test_the_command_writes_the_same_file_from_any_folder(tmp_path, saved):
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    weights = {"a.weight": torch.randn(5, 4), "b.weight": torch.randn(3, 4)}
    save_file(weights, folder / "model.safetensors")
    save_file({"a.weight": torch.ones(5, 4).tril()}, folder / "masks.safetensors")
    recipe = Recipe.from_yaml(Recipe(steps=[L1, MASK]).to_yaml(), folder=folder)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    with open_checkpoint(folder / "model.safetensors") as checkpoint:
        path = folder / "recipe.yaml" if saved else None
        line = command_line(recipe, checkpoint, folder / "out.safetensors", path)
        export(resolve(recipe, checkpoint), folder / "ours.safetensors")
    run_in_shell(line, tmp_path)
    found, wanted = load_file(folder / "out.safetensors"), load_file(folder / "ours.safetensors")
    assert all(found[name].equal(wanted[name]) for name in wanted)


def test_the_command_names_the_state_dict_and_the_plugin_file(tmp_path, plugin_file):
    path = plugin_file(
        """
        class Nothing(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t, default_mask):
                return default_mask
        """
    )
    load_methods(path)
    torch.save({"ema": {"w": torch.ones(3)}, "net": {"w": torch.ones(3)}}, tmp_path / "m.ckpt")
    recipe = Recipe(steps=[{"method": "nothing", "targets": ["*"]}])
    with open_checkpoint(tmp_path / "m.ckpt", "ema") as checkpoint:
        line = command_line(recipe, checkpoint, tmp_path / "out.ckpt", None)
    assert f"--methods {path}" in line
    assert "--state ema" in line


HOSTILE = [
    *("a\nb", "\x03\ntouch ran\n#.d", "\x1b[31m"),
    *("it's \u202e", '"; touch ran; "', "$(touch ran)\r.d"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_the_command_is_one_word_without_control_characters(on_disk, tmp_path, name):
    (tmp_path / name).mkdir()
    checkpoint = on_disk({"w": torch.ones(3)}, f"{name}/m.safetensors")
    line = command_line(Recipe(), checkpoint, tmp_path / "out.pt", tmp_path / "r.yaml")
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    show = tmp_path / "prune-gui"
    show.write_text(f"#!{sys.executable}\nimport sys\nprint(ascii(sys.argv[1:]))\n")
    show.chmod(0o755)
    script = ["sh", "-ec", f'PATH="{tmp_path}:$PATH"; {line}']
    done = subprocess.run(script, check=True, capture_output=True, text=True, cwd=tmp_path)
    words = [
        "apply",
        str(tmp_path / "r.yaml"),
        str(checkpoint.path),
        "-o",
        str(tmp_path / "out.pt"),
    ]
    assert done.stdout.strip() == ascii(words)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["x\nEND_OF_RECIPE\ntouch ran\n", "END_OF_RECIPE", "\x1b[31m"])
def test_a_recipe_cannot_end_its_here_document(on_disk, tmp_path, text):
    checkpoint = on_disk({"w": torch.ones(3)})
    recipe = Recipe(steps=[{"method": "identity", "targets": [text]}])
    line = command_line(recipe, checkpoint, tmp_path / "out.pt", None)
    assert line.split("\n").count("END_OF_RECIPE") == 1
    assert line.replace("\n", "").isprintable()
