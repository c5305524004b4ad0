"""The files beside the weights of a remote checkpoint: the same as beside a local one."""

import json

import pytest
from compact_networks import CONFIG, ffn_architecture, neurons, resolved, saved_mlp, with_plan
from written_files import contents

import prune_gui
from prune_gui.checkpoint.remote.access import FetchLimitError, fetch_limit
from prune_gui.checkpoint.remote.small_files import USUAL_NAMES
from prune_gui.errors import CheckpointError
from prune_gui.recipe import OutputPath, export
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.output import OutputOptions

TOKENIZER = b'{"version": "1.0"}'


@pytest.fixture
def model(folder):
    model = folder / "owner" / "net" / "resolve" / "main"
    model.parent.mkdir(parents=True)
    saved_mlp(model)
    files = {
        "tokenizer.json": TOKENIZER,
        "vocab.txt": b"a\nb\n",
        "generation_config.json": b"{}",
        "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    }
    for name, content in files.items():
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_bytes(content)
    return model


def more_files(model):
    """Add files that are found only on a server that lists them, and others that are not copied."""
    files = {
        "modeling_net.py": b"pass\n",
        "empty.txt": b"",
        "README.md": b"no",
        ".hidden.json": b"no",
        "2_Dense/config.json": b"{}",
        "2_Dense/model.safetensors": b"weights",
        "large/vocabulary.txt": bytes((1 << 20) + 1),
        "nested/inner/config.json": b"{}",
    }
    for name, content in files.items():
        (model / name).parent.mkdir(exist_ok=True, parents=True)
        (model / name).write_bytes(content)


@pytest.fixture
def hub(server, folder, monkeypatch):
    """Return a function that makes the server list the files of a model as the Hub does."""
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "a-token")

    def list_files(model):
        tree = folder / "api" / "models" / "owner" / "net" / "tree" / "main"
        for place in (model, *(path for path in model.rglob("*") if path.is_dir())):
            listed = [
                {
                    "type": "directory" if path.is_dir() else "file",
                    "path": path.relative_to(model).as_posix(),
                    "size": 0 if path.is_dir() else path.stat().st_size,
                }
                for path in place.iterdir()
            ]
            relative = place.relative_to(model)
            name = (tree / relative).relative_to(folder).as_posix()
            server.contents[name] = json.dumps(listed).encode()
        return "hf://owner/net"

    return list_files


def compacted(where, out):
    with prune_gui.open_checkpoint(where) as checkpoint:
        resolution = with_plan(
            resolved(checkpoint, neurons("*", [0])), ffn_architecture(config=CONFIG)
        )
        export(resolution, out, "compact")
        target = OutputPath.of(checkpoint, out, OutputOptions("compact"))
        note = contents_note(resolution, target, "compact", ())
    return contents(out), note


def test_files_with_usual_names_are_fetched_from_a_web_server(server, model, tmp_path):
    url = f"{server.url}/owner/net/resolve/main"
    remote, _ = compacted(url, tmp_path / "remote")
    local, _ = compacted(model, tmp_path / "local")
    assert remote == local
    assert remote["tokenizer.json"] == TOKENIZER
    assert remote["1_Pooling/config.json"]


def test_all_small_files_are_fetched_from_a_server_that_lists_them(hub, model, tmp_path):
    more_files(model)
    remote, note = compacted(hub(model), tmp_path / "remote")
    local, local_note = compacted(model, tmp_path / "local")
    assert remote == local
    assert {"2_Dense/model.safetensors", "empty.txt", "1_Pooling/config.json"} <= remote.keys()
    assert "modeling_net.py" not in remote
    assert note == local_note
    assert "not copied: large, nested" in note


@pytest.mark.slow
def test_files_that_are_gone_are_not_copied_later(hub, model, tmp_path):
    more_files(model)
    compacted(hub(model), tmp_path / "before")
    (model / "vocab.txt").unlink()
    (model / "1_Pooling" / "config.json").unlink()
    (model / "1_Pooling").rmdir()
    (model / "large" / "vocabulary.txt").write_text("small")
    remote, note = compacted(hub(model), tmp_path / "remote")
    assert remote == compacted(model, tmp_path / "local")[0]
    assert "vocab.txt" not in remote
    assert "large/vocabulary.txt" in remote
    assert "not copied: nested" in note


def test_no_small_file_is_fetched_at_opening(server, model):
    with prune_gui.open_checkpoint(f"{server.url}/owner/net/resolve/main"):
        pass
    asked = {path.rpartition("/resolve/main/")[2] for _, path, _ in server.requests}
    assert asked.isdisjoint(USUAL_NAMES)


def test_the_limit_of_what_is_fetched_counts(hub, model):
    (model / "tokenizer.json").write_bytes(bytes(5000))
    with prune_gui.open_checkpoint(hub(model)) as checkpoint:
        fetch_limit.set(4000)
        try:
            with pytest.raises(FetchLimitError, match=r"tokenizer\.json"):
                checkpoint.model_files_folder  # noqa: B018
        finally:
            fetch_limit.set(None)


def test_a_file_that_cannot_be_read_is_named(server, hub, model):
    with prune_gui.open_checkpoint(hub(model)) as checkpoint:
        server.contents["owner/net/resolve/main/tokenizer.json"] = None
        with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be reached"):
            checkpoint.model_files_folder  # noqa: B018
