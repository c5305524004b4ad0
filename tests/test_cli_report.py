"""`prune-gui report` as a process."""

import json

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import save_file

RECIPE = """
version: 1
protect: ["layer.2.weight"]
steps:
  - {method: l1_unstructured, targets: ["*.weight"], amount: 0.5}
  - {method: ln_structured, targets: ["layer.1.weight"], amount: 1, n: 2, dim: 0}
"""


@pytest.fixture
def dense(tmp_path):
    torch.manual_seed(0)
    folder = tmp_path / "secret-folder"
    folder.mkdir()
    tensors = {"layer.0.weight": torch.randn(8, 8), "layer.1.weight": torch.randn(8, 4)}
    tensors["layer.2.weight"] = torch.randn(4, 4)
    save_file(tensors, folder / "dense.safetensors")
    return folder / "dense.safetensors"


@pytest.fixture
def pruned(dense):
    recipe = dense.with_name("recipe.yaml")
    recipe.write_text(RECIPE)
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
        (("-o", page, "--csv", page), "must end in one of .csv"),
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
