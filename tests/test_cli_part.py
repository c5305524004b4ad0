"""`prune-gui part` and `merge`: their arguments, and what they print."""

import json

import click
import pytest
from safetensors.torch import load_file, save_file
from sharded_files import INDEX, write_shards
from written_files import contents

from prune_gui.cli.program import cli

pytestmark = pytest.mark.usefixtures("reopened")
RECIPE = """
steps:
  - {method: l1_unstructured, targets: ["*.weight"], scope: global, importance: scores.safetensors}
"""


@pytest.fixture
def files(demo_checkpoint, tmp_path, monkeypatch) -> list[str]:
    """The arguments of a recipe with a file of scores beside it, and of a checkpoint in shards."""
    tensors = load_file(demo_checkpoint)
    keys = sorted(tensors)
    shards = {f"model-{i}.safetensors": {key: tensors[key] for key in keys[i::2]} for i in (0, 1)}
    write_shards(tmp_path / "demo", shards)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "recipe.yaml").write_text(RECIPE)
    save_file(tensors, tmp_path / "recipes" / "scores.safetensors")
    monkeypatch.chdir(tmp_path)
    return ["recipes/recipe.yaml", "demo"]


def run(*arguments: str) -> None:
    cli.main([*arguments], standalone_mode=False)


def test_part_and_merge_print_the_warnings_of_the_checkpoint(files, tmp_path, capsys):
    index = tmp_path / "demo" / INDEX
    content = json.loads(index.read_text())
    unlisted = next(iter(content["weight_map"]))
    del content["weight_map"][unlisted]
    index.write_text(json.dumps(content))
    for arguments in (["part", "1/1", *files, "-o", "out", "--work", "work"], ["merge", "work"]):
        run(*arguments)
        assert f"{unlisted!r} in model-0.safetensors" in capsys.readouterr().err


def test_parts_and_merge_write_what_apply_writes(files, tmp_path, capsys):
    run("apply", *files, "-o", "alone")
    done = []
    while len(done) < 2:
        capsys.readouterr()
        for part in ("1/2", "2/2"):
            run("part", part, *files, "-o", "out", "--work", "work/of/it")
        printed = capsys.readouterr().out.splitlines()
        done = [line for line in printed if "run: prune-gui merge work/of/it" in line]
    run("merge", "work/of/it")
    assert "Wrote" in capsys.readouterr().out
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")
    assert (tmp_path / "out" / INDEX).exists()


@pytest.mark.parametrize("number", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", "1/²"])
def test_a_number_that_is_no_part_is_wrong_usage(files, number):
    with pytest.raises(click.BadParameter, match="is not a part such as 2/8"):
        run("part", "--work", "work", "-o", "out", "--", number, *files)
