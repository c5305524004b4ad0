import pytest
import torch
from safetensors.torch import load_file, save_file
from waiting import change


@pytest.fixture
def path(window, open_file, tmp_path, demo_checkpoint, workbench, make_step):
    """The path of an open copy of the demo, with an unsaved step."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(demo_checkpoint.read_bytes())
    open_file(path)
    workbench.edit(lambda session: session.add(make_step()))
    return path


def replace_by_ones(path):
    tensors = load_file(path)
    tensors["features.conv1.weight"] = torch.ones_like(tensors["features.conv1.weight"])
    save_file(tensors, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def reload(window, qtbot):
    with change(qtbot, window.workbench, "file"):
        window.menu_actions["reload"].trigger()


def test_a_replaced_file_is_reported_until_it_is_reloaded(window, path, qtbot, workbench):
    notice = window.reload_notice
    assert notice.text == ""
    replace_by_ones(path)
    qtbot.waitUntil(lambda: notice.text == "model.safetensors changed on disk", timeout=60_000)
    reload(window, qtbot)
    assert notice.text == ""
    replace_by_ones(path)
    qtbot.waitUntil(lambda: notice.text != "", timeout=60_000)


def test_a_file_written_in_place_is_reported(window, path, qtbot):
    path.write_bytes(path.read_bytes())
    qtbot.waitUntil(lambda: window.reload_notice.text != "", timeout=60_000)


def test_reloading_keeps_the_recipe_its_history_and_the_parameter(window, path, qtbot, workbench):
    workbench.edit(lambda session: session.name_state("mine"))
    workbench.choose("features.conv1.weight")
    before = workbench.session
    replace_by_ones(path)
    reload(window, qtbot)
    session = workbench.session
    assert session is not before
    assert session.history == before.history
    assert session.named_states == before.named_states
    assert session.unsaved
    assert window.isWindowModified()
    assert workbench.chosen == "features.conv1.weight"
    assert bool((session.checkpoint.read("features.conv1.weight") == 1).all())


def test_a_failed_reload_keeps_the_open_session(window, path, qtbot, workbench):
    before = workbench.session
    path.with_suffix(".tmp").write_text("hello")
    path.with_suffix(".tmp").replace(path)
    with qtbot.waitSignal(workbench.failed, timeout=60_000):
        window.menu_actions["reload"].trigger()
    assert workbench.session is before
    window._errors._box.accept()


def test_a_reload_does_not_replace_a_checkpoint_opened_meanwhile(
    window, path, qtbot, workbench, demo_checkpoint
):
    workbench.files.open(demo_checkpoint)
    workbench.files.reload()
    qtbot.waitUntil(lambda: not workbench.bridge._waiting, timeout=60_000)
    assert workbench.session.checkpoint.path == demo_checkpoint
