"""`prune-gui inspect`, `diff`, `verify` and `report`, and the warnings that commands print."""

import json

import pytest
import torch
from applied import applied
from command_line import prune_gui
from safetensors.torch import save_file
from sharded_files import INDEX, write_shards

from prune_gui.cli.program import cli
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.several_files import prune_file


@pytest.fixture
def training(tmp_path):
    """Return a training checkpoint with two state dicts."""
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3)).state_dict()
    torch.save({"model": model, "ema": {"w": torch.ones(2, 2)}}, tmp_path / "t.pt")
    return tmp_path / "t.pt"


@pytest.mark.slow
def test_inspect_marks_module_types_as_inferred_and_shows_roles_of_tensors(training):
    text = prune_gui("inspect", training)
    assert (text.returncode, text.stderr) == (0, "")
    assert "magnitude of a weight norm" in text.stdout
    assert "original1: direction of the weight-normalized weight" in text.stdout
    printed = json.loads(prune_gui("inspect", training, "--json").stdout)
    assert printed["modules"] == [{"path": "", "kind": "Linear", "inferred": True}]
    roles = {each["name"].rpartition(".")[2]: each["role"] for each in printed["tensors"]}
    assert roles["bias"] is None
    assert "magnitude" in roles["original0"]


@pytest.mark.slow
def test_sizes_count_parameters_and_no_running_statistics(tmp_path):
    norm = torch.nn.BatchNorm2d(4)
    save_file(
        {f"bn.{name}": one for name, one in norm.state_dict().items()}, tmp_path / "m.safetensors"
    )
    text = prune_gui("inspect", tmp_path / "m.safetensors").stdout
    assert "5 tensors, 8 prunable parameters" in text
    assert "Zeros: 4 of 8" in text
    printed = json.loads(prune_gui("inspect", tmp_path / "m.safetensors", "--json").stdout)
    assert (printed["parameters"], printed["zeros"]) == (8, 4)


def test_one_tensor_is_counted_in_the_singular(tmp_path):
    path = tmp_path / "one.safetensors"
    save_file({"weight": torch.ones(1)}, path)
    inspected, verified, compared = (
        prune_gui(*words).stdout.splitlines()
        for words in (["inspect", path], ["verify", path], ["diff", path, path])
    )
    assert inspected[0] == f"{path}: safetensors, 1 tensor, 1 prunable parameter, 4 bytes"
    assert verified[-1:] == [f"{path}: sound: 1 tensor, 4 bytes"]
    assert compared[0] == f"A: {path}: safetensors, 1 tensor"
    assert compared[2].startswith("1 tensor: all byte-identical;")


@pytest.mark.slow
def test_a_state_dict_is_chosen_by_its_name(training, tmp_path):
    printed = json.loads(prune_gui("inspect", training, "--json").stdout)
    assert (printed["state_dict"], printed["state_dicts"]) == ("model", ["model", "ema"])
    assert "'ema'" in printed["warnings"][0]
    assert "--state" in printed["warnings"][0]
    other = json.loads(prune_gui("inspect", training, "--json", "--state", "ema").stdout)
    assert [each["name"] for each in other["tensors"]] == ["w"]
    recipe, out = tmp_path / "recipe.yaml", tmp_path / "out.pt"
    recipe.write_text("steps: [{method: l1_unstructured, targets: [w], amount: 1}]\n")
    result = prune_gui("apply", recipe, training, "-o", out, "--state", "ema")
    assert (result.returncode, "'ema'" in result.stderr) == (0, True)
    written = torch.load(out, weights_only=True)
    assert written["ema"]["w"].count_nonzero() == 3
    assert written["model"].keys() == torch.load(training, weights_only=True)["model"].keys()
    wrong = prune_gui("inspect", training, "--state", "none")
    assert wrong.returncode == 1
    assert "Choose one of 'model', 'ema'" in wrong.stderr


@pytest.fixture
def two_files(tmp_path):
    """Return two files: a tensor pruned to 2:4, one unchanged, one of another shape, one new."""
    w = torch.arange(1.0, 9).view(2, 4)
    a = {"w": w, "b": torch.ones(2), "r": torch.ones(2, 3)}
    b = {"w": w * torch.tensor([0, 1, 0, 1.0]), "b": a["b"], "r": torch.ones(3, 2), "n": w}
    save_file(a, tmp_path / "a.safetensors", {"kind": "dense"})
    save_file(b, tmp_path / "b.safetensors", {"kind": "pruned"})
    return tmp_path / "a.safetensors", tmp_path / "b.safetensors"


def test_the_table_lists_differing_tensors_and_ends_with_a_summary(two_files):
    result = prune_gui("diff", *two_files)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    [w] = [line.split() for line in lines if line.startswith("w ")]
    assert w == [
        *("w", "values", "2", "x", "4", "float32", "4", "7", "0", "->", "4", "4", "0", "0.000"),
        *("none", "->", "2:4"),
    ]
    assert any(line.split()[:3] == ["n", "only", "in"] for line in lines)
    assert any(line.startswith("r ") and "2 x 3 -> 3 x 2" in line for line in lines)
    assert not any(line.startswith("b ") for line in lines)
    assert "Metadata kind: differs" in lines
    assert lines[-1] == (
        "4 tensors: 1 byte-identical, 1 changed, 1 of another shape, 1 only in B; "
        "zeros 0 -> 4: 4 gained, 0 lost, IoU 0.000"
    )


@pytest.mark.slow
def test_json_is_one_object_with_every_tensor(two_files):
    result = prune_gui("diff", *two_files, "--json")
    printed = json.loads(result.stdout)
    assert (result.returncode, result.stderr, printed["identical"]) == (0, "", False)
    assert printed["metadata"] == {"kind": ["dense", "pruned"]}
    rows = {row["name"]: row for row in printed["tensors"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "w": "changed", "b": "identical", "r": "shape", "n": "only_in_b",
    }  # fmt: skip
    assert rows["w"]["zeros"] == {"a": 0, "b": 4, "both": 0, "gained": 4, "lost": 0, "iou": 0.0}
    assert rows["w"]["b"]["n_m"] == ["2:4"]
    assert (rows["w"]["differing"], rows["w"]["largest_difference"]) == (4, 7.0)
    assert rows["n"]["a"] is None


@pytest.fixture
def saved_files(tmp_path):
    """Return an intact file, and one with a changed byte."""
    save_file({"w": torch.arange(1.0, 9), "b": torch.ones(2)}, tmp_path / "in.safetensors")
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}
    with applied(tmp_path / "in.safetensors", Recipe(steps=[step])) as resolution:
        for name in ("good", "bad"):
            export(resolution, tmp_path / f"{name}.safetensors")
    with (tmp_path / "bad.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    return tmp_path / "good.safetensors", tmp_path / "bad.safetensors"


def test_a_damaged_tensor_is_named_and_the_exit_code_is_1(saved_files, tmp_path):
    result = prune_gui("verify", *saved_files, tmp_path / "none.pt")
    problem = f"{saved_files[1]}: 'w': its values are not those that were saved."
    assert result.returncode == 1
    assert result.stderr == f"prune-gui: {problem} And 1 more.\n"
    assert result.stdout.splitlines() == [
        f"{saved_files[0]}: sound: 2 tensors, 40 bytes, 2 compared with checksums",
        problem,
        f"{tmp_path / 'none.pt'} does not exist. Check its name.",
    ]


def test_an_intact_file_exits_with_0_and_json_is_one_object(saved_files, tmp_path):
    result = prune_gui("verify", "--json", saved_files[0])
    [good] = json.loads(result.stdout)["files"]
    assert (result.returncode, result.stderr) == (0, "")
    assert (good["sound"], good["problems"], good["compared"]) == (True, [], 2)
    result = prune_gui("verify", "--json", saved_files[1], tmp_path / "none.pt")
    bad, none = json.loads(result.stdout)["files"]
    assert result.returncode == 1
    assert bad["problems"] == [{"name": "w", "text": "its values are not those that were saved"}]
    assert none["sound"] is False
    assert "does not exist" in none["error"]


RECIPE = "steps: [{method: l1_unstructured, targets: ['*.weight'], amount: 0.5}]"
EVALUATOR = """
def evaluate(path):
    return 1.0
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder of shards, of which one has a tensor that the index does not list."""
    monkeypatch.chdir(tmp_path)
    weights = {f"{name}.weight": torch.randn(4, 4) for name in "abc"}
    write_shards(tmp_path / "model", {"m-1.safetensors": weights})
    index = tmp_path / "model" / INDEX
    content = json.loads(index.read_text())
    del content["weight_map"]["c.weight"]
    index.write_text(json.dumps(content))
    save_file(weights, tmp_path / "other.safetensors")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "evaluate.py").write_text(EVALUATOR)
    return tmp_path / "model"


@pytest.mark.parametrize(
    "arguments",
    [
        "apply recipe.yaml model -o out",
        "report model -o out.html",
        "report other.safetensors --reference model -o out.html",
        "evaluate --yes evaluate.py:evaluate model",
        "evaluate --yes evaluate.py:evaluate model --recipe recipe.yaml",
        "scan --yes evaluate.py:evaluate model --amounts 0.5",
        "diff model other.safetensors",
    ],
)
def test_a_command_prints_the_warnings_of_its_checkpoint_once(model, arguments, capsys):
    cli.main(arguments.split(), standalone_mode=False)
    lines = capsys.readouterr().err.splitlines()
    [warning] = [line for line in lines if line.startswith("Warning: ")]
    assert warning.endswith("'c.weight' in m-1.safetensors.")


@pytest.mark.parametrize(
    "arguments",
    [
        "apply recipe.yaml model -o out",
        "evaluate --yes evaluate.py:evaluate model",
        "inspect model",
    ],
)
def test_json_has_the_warnings(model, arguments, capsys):
    cli.main([*arguments.split(), "--json"], standalone_mode=False)
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.endswith("'c.weight' in m-1.safetensors.")


def test_a_batch_has_the_warnings_of_each_checkpoint(model):
    row = prune_file(Recipe.from_yaml(RECIPE), model, None, OutputOptions(), Monitor())
    assert row.warnings[0].endswith("'c.weight' in m-1.safetensors.")


REPORTED = """
version: 1
protect: ["layer.2.weight"]
steps:
  - {method: l1_unstructured, targets: ["*.weight"], amount: 0.5}
  - {method: ln_structured, targets: ["layer.1.weight"], amount: 1, n: 2, dim: 0}
"""


@pytest.fixture
def dense(tmp_path):
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    tensors = {"layer.0.weight": torch.randn(8, 8), "layer.1.weight": torch.randn(8, 4)}
    tensors["layer.2.weight"] = torch.randn(4, 4)
    save_file(tensors, folder / "dense.safetensors")
    return folder / "dense.safetensors"


@pytest.fixture
def pruned(dense):
    recipe = dense.with_name("recipe.yaml")
    recipe.write_text(REPORTED)
    out = dense.with_name("pruned.safetensors")
    result = prune_gui("apply", recipe, dense, "-o", out)
    assert result.returncode == 0, result.stderr
    return out


@pytest.mark.slow
def test_a_page_is_written_once_and_names_no_folder(dense, tmp_path):
    out = tmp_path / "report.html"
    result = prune_gui("report", dense, "-o", tmp_path / "report")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == f"Wrote {out} ({out.stat().st_size:,} bytes)"
    assert "dense.safetensors" in out.read_text()
    assert "secret-folder" not in out.read_text()
    again = prune_gui("report", dense, "-o", out)
    assert (again.returncode, again.stdout) == (1, "")
    assert "already exists" in again.stderr


@pytest.mark.slow
def test_a_file_of_this_program_is_retraced_on_its_reference(dense, pruned, tmp_path):
    out, table = tmp_path / "report.html", tmp_path / "report.csv"
    arguments = ("report", pruned, "-o", out, "--csv", table, "--reference", dense, "--json")
    result = prune_gui(*arguments, "--paths")
    printed = json.loads(result.stdout)
    [file] = printed["files"]
    assert file["steps_repeated"]
    assert [step["pruned"] for step in file["steps"]] == [48, file["zeros"] - 48]
    assert 0 < file["kept_energy"] < 1
    assert file["layers"][0]["zeros_by_step"] == {"1": 32}
    assert "secret-folder" in out.read_text()
    assert table.read_text().count("\n") == 4
    without = prune_gui("report", pruned, "-o", out, "--overwrite", "--json")
    [file] = json.loads(without.stdout)["files"]
    assert (file["kept_energy"], file["steps_repeated"]) == (None, False)
    assert [step["pruned"] for step in file["steps"]] == [None, None]


@pytest.mark.slow
def test_files_are_compared_side_by_side(dense, pruned, tmp_path):
    result = prune_gui("report", pruned, dense, "-o", tmp_path / "two.html", "--json")
    printed = json.loads(result.stdout)
    [pair] = printed["pairs"]
    zeros = printed["files"][0]["zeros"]
    assert (pair["revived"], pair["newly_zero"], pair["iou"]) == (zeros, 0, 0.0)


@pytest.mark.slow
def test_a_checkpoint_is_never_replaced_by_its_report(dense):
    before = dense.read_bytes()
    page = dense.with_name("r.html")
    other = dense.rename(dense.with_name("odd.csv"))  # its content decides
    for arguments, message in (
        (("-o", other), "must end in one of .html, .htm"),
        (("-o", page, "--csv", page), "its name must end in .csv."),
        (("-o", page, "--csv", other), "it is a checkpoint or another binary file"),
    ):
        result = prune_gui("report", other, *arguments, "--overwrite")
        assert (result.returncode, result.stderr.count("\n")) == (1, 1)
        assert message in result.stderr
    assert other.read_bytes() == before
    assert [path.name for path in other.parent.iterdir()] == ["odd.csv"]


@pytest.mark.slow
def test_a_recipe_that_cannot_be_repeated_is_reported_without_folders(dense, tmp_path):
    scores = dense.with_name("scores.safetensors")
    save_file({"layer.0.weight": torch.randn(8, 8)}, scores)
    recipe, out = dense.with_name("recipe.yaml"), dense.with_name("pruned.safetensors")
    recipe.write_text(
        "steps:\n  - {method: l1_unstructured, targets: [layer.0.weight], amount: 0.5, "
        f"importance: {scores}}}\n"
    )
    assert prune_gui("apply", recipe, dense, "-o", out).returncode == 0
    scores.unlink()
    page = tmp_path / "report.html"
    result = prune_gui("report", out, "-o", page, "--reference", dense, "--json")
    [file] = json.loads(result.stdout)["files"]
    assert not file["steps_repeated"]
    [warning] = file["warnings"]
    assert warning.startswith("The recorded steps cannot be repeated. Step 1: scores.safetensors")
    assert file["kept_energy"] < 1
    assert "secret-folder" not in page.read_text()
