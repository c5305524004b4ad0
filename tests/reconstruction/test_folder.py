"""Folders of transformers are reconstructed with one block in memory, and runs are resumed."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from small_tokenizers import TEXT, tokenizer_json
from written_files import contents, tensors_in

from prune_gui.cli.printing import StatusLine
from prune_gui.cli.program import cli
from prune_gui.errors import CheckpointError, ReconstructionError
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputOptions, Recipe
from prune_gui.reconstruction.calibration import read_calibration
from prune_gui.reconstruction.folder import CalibrationFile, FolderRun
from prune_gui.reconstruction.running import BlockError, Options

pytestmark = pytest.mark.slow  # transformers is slow to import
RECIPE = Recipe.model_validate({"steps": [{"method": "n_m", "targets": ["*_proj.weight"]}]})
HALF = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "amount": 0.5, "targets": ["*_proj.weight"]}]}
)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
NAMES = "model.layers.{}.mlp.down_proj.weight"


@pytest.fixture
def folder(small_llama):
    return small_llama


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.safetensors"
    generator = torch.Generator().manual_seed(0)
    save_file({"calibration": torch.randint(256, (12, 24), generator=generator)}, path)
    return path


def run(
    folder,
    tokens,
    out,
    *,
    recipe=RECIPE,
    report=lambda _: None,
    device="cpu",
    monitor=None,
    **options,
):
    with FolderRun.opened(
        folder,
        recipe,
        CalibrationFile(tokens),
        out,
        options=Options(**options),
        output=OutputOptions(overwrite=True),
        device=torch.device(device),
    ) as opened:
        return opened.run(monitor or Monitor(), report)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", [{}, {"tuning_steps": 4}, {"recipe": HALF, "spread": 0.2}], ids=str
)
def test_a_stopped_run_goes_on_with_the_same_bytes(folder, tokens, tmp_path, options, device):
    options = {**options, "device": device}
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    expected = run(folder, tokens, whole, **options)

    class StoppedError(Exception):
        pass

    def stop_after(number):
        def report(found):
            if isinstance(found, BlockError) and found.number == number:
                raise StoppedError

        return report

    for number in range(2):
        with pytest.raises(StoppedError):
            run(folder, tokens, resumed, **options, report=stop_after(number))
        assert not resumed.exists()
    pruned_again, monitor = [], Monitor()
    found = run(folder, tokens, resumed, **options, report=pruned_again.append, monitor=monitor)
    assert monitor.skipped == 2
    assert {one.name for one in pruned_again if not isinstance(one, BlockError)}
    assert found == expected
    assert contents(resumed) == contents(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "resumed",
        "tokens.safetensors",
        "whole",
    ]


ENDS_ITSELF = """
import json, os, signal, sys
from test_folder import Path, run

moment, folder, tokens, out = int(sys.argv[1]), *map(Path, sys.argv[2:])
count = 0

def happened(*_):
    global count
    count += 1
    if count == moment:
        os.kill(os.getpid(), signal.SIGKILL)

def audit(event, args):
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link"):
        if any(out.parent.name in str(arg) and "tokens" not in str(arg) for arg in args):
            happened()

sys.addaudithook(audit)
run(folder, tokens, out, report=happened)
print(count)
"""
"""Runs a reconstruction, and kills itself at a moment: a result, or a change of a file."""


def run_killed(moment, *paths):
    """Return how many moments a run had; None if it was killed at one."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS_ITSELF, str(moment), *map(str, paths)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.very_slow
def test_a_killed_run_goes_on_with_the_same_bytes(folder, tokens, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    moments = run_killed(0, folder, tokens, whole)
    first, second = random.Random(0).sample(range(1, moments // 2), 2)
    assert run_killed(first, folder, tokens, resumed) is None
    assert not resumed.exists()
    assert run_killed(second, folder, tokens, resumed) is None
    run(folder, tokens, resumed)
    assert contents(resumed) == contents(whole)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"resumed", "tokens.safetensors", "whole"}


def stop(found):
    if isinstance(found, BlockError):
        raise KeyboardInterrupt


@pytest.fixture
def stopped(folder, tokens, tmp_path):
    """The output of a run that was stopped after its first block."""
    with pytest.raises(KeyboardInterrupt):
        run(folder, tokens, tmp_path / "out", report=stop)
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("options", "difference"), [({"damping": 0.1}, "damping"), ({"seed": 1}, "seed")]
)
def test_other_options_are_refused_where_blocks_are_finished(
    folder, tokens, stopped, options, difference
):
    with pytest.raises(ReconstructionError, match=f"differs in its {difference}. Repeat"):
        run(folder, tokens, stopped, **options)
    run(folder, tokens, stopped)
    assert stopped.is_dir()


def test_other_files_are_refused_where_blocks_are_finished(folder, tokens, stopped, tmp_path):
    others = tmp_path / "others.safetensors"
    save_file({"calibration": load_file(tokens)["calibration"].flip(0)}, others)
    with pytest.raises(ReconstructionError, match="differs in its calibration data"):
        run(folder, others, stopped)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for path in copy.glob("*.safetensors"):
        save_file({name: 2 * weight for name, weight in load_file(path).items()}, path)
    with pytest.raises(ReconstructionError, match="differs in its model"):
        run(copy, tokens, stopped)
    half = Recipe.model_validate({"steps": [{"method": "l1_unstructured", "targets": ["*"]}]})
    with pytest.raises(ReconstructionError, match="differs in its recipe"):
        run(folder, tokens, stopped, recipe=half)


def test_a_second_run_into_the_same_folder_is_refused(folder, tokens, tmp_path):
    def begin_another(found):
        with pytest.raises(ReconstructionError, match="Another run is writing"):
            run(folder, tokens, tmp_path / "out")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, tokens, tmp_path / "out", report=begin_another)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.safetensors"]


def test_nothing_is_lost_if_the_output_cannot_be_written(folder, tokens, tmp_path, monkeypatch):
    expected, out = run(folder, tokens, tmp_path / "whole"), tmp_path / "out"

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "pwrite", fail)
        with pytest.raises(CheckpointError, match="the disk is full"):
            run(folder, tokens, out)
    assert not out.exists()
    assert run(folder, tokens, out) == expected


def test_room_for_the_blocks_beside_the_output_is_needed(folder, tokens, tmp_path, monkeypatch):
    size = sum(weight.nbytes for weight in tensors_in(folder).values())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=size + 10_000))
    with pytest.raises(CheckpointError, match=r"out needs .* Free disk space"):
        run(folder, tokens, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.safetensors"]


def test_the_command_writes_a_folder_that_transformers_loads(folder, tmp_path, monkeypatch):
    import transformers

    lines = []
    monkeypatch.setattr(StatusLine, "_replace", lambda _, text: lines.append(text))
    recipe, text, out = tmp_path / "r.yaml", tmp_path / "text.txt", tmp_path / "out"
    recipe.write_text(RECIPE.to_yaml())
    text.write_text("\n".join(TEXT * 20))
    arguments = ["reconstruct", folder, "--recipe", recipe, "--calibration", text, "-o", out]
    result = CliRunner().invoke(cli, [*map(str, arguments), "--length", "32"])
    assert result.exit_code == 0, result.output
    assert "Block 3 of 3: error" in result.output
    assert "50.00% of" in result.output
    first, _, begun, of_layer = lines[:4]
    assert (first, begun) == ("Reading the calibration data", "Block 1 of 3")
    assert of_layer.startswith("Block 1 of 3: model.layers.0.self_attn.q_proj.weight, error ")
    assert lines[-2:] == ["Writing", ""]
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    assert model(input_ids=torch.tensor([[1, 2, 3]])).logits.isfinite().all()
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    dense, pruned = tensors_in(folder), tensors_in(out)
    assert dense.keys() == pruned.keys()
    for name, weight in pruned.items():
        if name.endswith("_proj.weight"):
            assert ((weight.view(-1, 4) != 0).sum(1) <= 2).all()
        else:
            assert torch.equal(weight, dense[name])
    assert tensors_in(out)[NAMES.format(2)].dtype == torch.bfloat16
    verified = CliRunner().invoke(cli, ["verify", str(out)])
    assert (verified.exit_code, "sound" in verified.output) == (0, True)
    inspected = CliRunner().invoke(cli, ["inspect", str(out), "--json"])
    metadata = json.loads(inspected.output).get("metadata", {})
    assert inspected.exit_code == 0
    assert "prune_gui.calibration" in metadata or metadata == {}


def test_amounts_of_layers_differ_within_the_spread_and_are_recorded(folder, tokens, tmp_path):
    out = tmp_path / "out"
    run(folder, tokens, out, recipe=HALF, spread=0.1)
    pruned = {name: one for name, one in tensors_in(out).items() if name.endswith("_proj.weight")}
    shares = [float((one == 0).float().mean()) for one in pruned.values()]
    assert min(shares) < 0.45
    assert max(shares) > 0.55
    assert max(abs(share - 0.5) for share in shares) < 0.101
    total = sum(one.numel() for one in pruned.values())
    zeros = sum(int((one == 0).sum()) for one in pruned.values())
    assert zeros / total == pytest.approx(0.5, abs=1e-3)
    verified = CliRunner().invoke(cli, ["verify", str(out)])
    assert (verified.exit_code, "sound" in verified.output) == (0, True), verified.output


def test_a_recipe_without_one_amount_for_several_layers_cannot_spread(folder, tokens, tmp_path):
    with pytest.raises(ReconstructionError, match="that has one amount"):
        run(folder, tokens, tmp_path / "out", spread=0.1)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def command(folder, tokens, tmp_path):
    """The command that reconstructs a small model."""
    recipe, out = tmp_path / "r.yaml", tmp_path / "out"
    recipe.write_text(RECIPE.to_yaml())
    arguments = "reconstruct", folder, "--recipe", recipe, "--calibration", tokens, "-o", out
    return list(map(str, arguments))


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(command, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli, [*command, "--dry-run"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "LlamaForCausalLM: 3 blocks in model.layers"
    assert lines[1].startswith("21 layers to prune")
    assert lines[1].endswith("50.00%")
    assert "2:4; masks chosen in the solve" in lines[2]
    assert lines[3] == "Calibration: 12 samples, 288 tokens"
    plan = json.loads(CliRunner().invoke(cli, [*command, "--dry-run", "--json"]).output)
    assert (plan["blocks"], plan["finished"], plan["memory"] > 0) == (3, 0, True)
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_says_of_which_layers_the_amounts_may_differ(command, tmp_path):
    steps = HALF.model_dump(mode="json")["steps"]
    steps[0]["targets"] = ["*mlp*_proj.weight"]
    n_m = {"method": "n_m", "targets": ["*self_attn*_proj.weight"]}
    recipe = Recipe.model_validate({"steps": [*steps, n_m]})
    (tmp_path / "r.yaml").write_text(recipe.to_yaml())
    command = [*command, "--dry-run"]
    note = "    The share of a layer may differ by up to 0.1, not that of a block."
    spread = CliRunner().invoke(cli, [*command, "--spread", "0.1"]).output.splitlines()
    assert spread[spread.index(note) - 1].startswith("  9 layers: L1 unstructured")
    assert spread.count(note) == 1
    assert note not in CliRunner().invoke(cli, command).output
    plan = json.loads(CliRunner().invoke(cli, [*command, "--spread", "0.1", "--json"]).output)
    assert {(layer["spread"], "mlp" in layer["name"]) for layer in plan["layers"]} == {
        (0.1, True),
        (0.0, False),
    }


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [("nan", "learning rate is nan"), ("inf", "learning rate is inf"), ("0", "range x>0")],
)
def test_a_learning_rate_out_of_range_is_refused(command, rate, wanted):
    result = CliRunner().invoke(cli, [*command, "--rate", rate])
    assert result.exit_code
    assert wanted in (result.output or str(result.exception))


def test_the_model_itself_is_replaced_only_with_overwrite(command, folder, tmp_path):
    assert CliRunner().invoke(cli, command).exit_code == 0
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    on_itself = [str(own) if part in (str(folder), command[-1]) else part for part in command]
    assert "is not empty" in str(CliRunner().invoke(cli, on_itself).exception)
    assert contents(own) == contents(folder)
    assert CliRunner().invoke(cli, [*on_itself, "--overwrite"]).exit_code == 0
    assert contents(own) == contents(tmp_path / "out")


def test_without_transformers_the_extra_is_named(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    result = CliRunner().invoke(cli, command)
    assert "pip install 'prune-gui[reconstruct]'" in str(result.exception)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("none.txt", None, "none.txt cannot be read"),
        ("short.txt", b"a few words", "fewer than 512 tokens"),
        ("empty.txt", b" \n", "has no text"),
        ("raising.py", b"def batches(): raise ValueError('no data')", "raised ValueError: no data"),
        ("leaving.py", b"import sys; sys.exit(2)", "raised SystemExit: 2"),
        ("nothing.py", b"def batches(): return []", "must return at least one dict"),
        ("lists.py", b"def batches(): return [1]", "must return at least one dict"),
        ("wrong.py", b"batches = lambda: [{'ids': 1}]", "cannot run the first batch"),
        (
            "negative.py",
            b"import torch\nbatches = lambda: [{'input_ids': torch.tensor([[-1]])}]",
            "another model",
        ),
        ("latin.txt", b"\xff\xfe\xe4", "is not UTF-8 text"),
        ("own.py", b"x = 1", "defines no function batches()"),
        (
            "ids.py",
            b"import torch\nbatches = lambda: [{'input_ids': torch.tensor([[2000]])}]",
            "another model",
        ),
    ],
)
def test_calibration_that_cannot_be_used_is_refused(folder, tmp_path, name, content, wanted):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReconstructionError, match=wanted.replace("(", r"\(").replace(")", r"\)")):
        run(folder, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_that_the_tokenizer_does_not_know_is_refused(tmp_path):
    from transformers import PreTrainedTokenizerFast

    file, text = tmp_path / "tokenizer.json", tmp_path / "lines.txt"
    file.write_text(tokenizer_json("word_piece"))
    text.write_text("猫が\nthe cat\nマットに座る\n", "utf-8")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
    with pytest.raises(ReconstructionError, match=r"does not know most of .*lines\.txt"):
        read_calibration(text, tokenizer, is_causal=False)
    text.write_text("the cat sat\n猫\n", "utf-8")
    assert read_calibration(text, tokenizer, is_causal=False).batches


def test_a_folder_without_a_model_is_refused(tmp_path, tokens):
    model = tmp_path / "model"
    model.mkdir()
    save_file({"weight": torch.ones(4, 4)}, model / "model.safetensors")
    with pytest.raises(ReconstructionError, match="holds no model that transformers"):
        run(model, tokens, tmp_path / "out")


def test_an_encoder_gets_all_lines_up_to_the_number_of_tokens(tmp_path):
    from transformers import PreTrainedTokenizerFast

    file, text = tmp_path / "tokenizer.json", tmp_path / "lines.txt"
    file.write_text(tokenizer_json("byte_bpe"))
    text.write_text("one line\n\n" * 200)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
    count = len(tokenizer("one line")["input_ids"])
    for samples, lines in ((200, 200), (2, 20 // count)):
        data = read_calibration(text, tokenizer, samples=samples, length=10, is_causal=False)
        assert sum(len(batch["input_ids"]) for batch in data.batches) == lines
