"""Jobs of a window on the cluster of the settings."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from distributed import Client, LocalCluster
from pages import errors
from waiting import change, draft_step

from prune_gui import parallel
from prune_gui.checkpoint import open_checkpoint
from prune_gui.cluster import dask_executor
from prune_gui.gui.cluster import CLUSTER, HERE, ClusterIndicator, RunOnField
from prune_gui.gui.dialogs.settings import SettingsDialog
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.windows import Windows
from prune_gui.recipe import resolve
from prune_gui.recipe.output import OutputOptions
from prune_gui.session import Settings

pytestmark = pytest.mark.usefixtures("reopened")

NOWHERE = "tcp://127.0.0.1:1"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler in this process with one worker."""
    with LocalCluster(
        1, processes=False, threads_per_worker=1, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as one:
        with Client(one, set_as_default=False) as client:
            client.submit(int).result()  # starts its thread
        yield one.scheduler_address


@pytest.fixture
def preferences() -> Preferences:
    return Preferences(Settings())


@pytest.fixture
def window(qtbot, preferences, demo_checkpoint):
    windows = Windows(preferences, Path("prune-gui.log"))
    made = windows.make()
    with change(qtbot, made.workbench, "resolution"):
        made.commands.open_path(demo_checkpoint)
    yield made
    assert windows.close()
    made.recovery.stop()
    made.hide()
    made.views.dismantle()
    made.deleteLater()
    windows.deleteLater()


@pytest.fixture
def step(make_step):
    return make_step("l1_unstructured", "*.weight", scope="global", amount=0.5)


def indicator(window) -> ClusterIndicator:
    return window.findChild(ClusterIndicator)


def has_resolved(window, step) -> bool:
    return window.workbench.resolved.recipe.steps == (step,)


def test_a_step_is_resolved_on_the_cluster_with_the_same_result(
    window, preferences, address, qtbot, step, reopened
):
    assert indicator(window).isHidden()
    preferences.change("run_on", address)
    window.workbench.edit(lambda session: session.add(step))
    qtbot.waitUntil(lambda: has_resolved(window, step), timeout=60_000)
    resolution = window.workbench.resolved.resolution
    assert reopened
    alone = resolve(resolution.recipe, resolution.checkpoint)
    assert resolution.counts == alone.counts
    for name in alone.counts:
        assert torch.equal(resolution.mask(name), alone.mask(name))
    text = f"On cluster {address}, 1 worker"
    qtbot.waitUntil(lambda: indicator(window).text() == text)
    assert indicator(window).isVisible()
    preferences.change("run_on", "")
    qtbot.waitUntil(indicator(window).isHidden)


def test_a_pruned_folder_is_written_on_the_cluster(
    window, preferences, address, qtbot, step, tmp_path, reopened
):
    preferences.change("run_on", address)
    window.workbench.edit(lambda session: session.add(step))
    files = window.workbench.files
    with qtbot.waitSignal(files.saved, timeout=60_000):
        files.save(tmp_path / "out", OutputOptions(shard_size=100_000))
    assert reopened
    with open_checkpoint(tmp_path / "out") as written:
        mask = window.workbench.resolved.resolution.mask
        for name in window.workbench.resolved.resolution.counts:
            assert not written.read(name)[~mask(name)].any()


def test_a_draft_with_one_target_is_previewed_on_this_machine(
    window, preferences, qtbot, make_step, monkeypatch
):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 1000)
    preferences.change("run_on", NOWHERE)
    step = make_step("l1_unstructured", "classifier.hidden.weight", amount=0.5)
    draft_step(window.workbench, step)
    qtbot.waitUntil(lambda: window.workbench.draft_number == 1)
    assert window.workbench.shown.total[0] > 0
    assert indicator(window).text() == f"On cluster {NOWHERE}"


def test_a_cluster_that_cannot_be_reached_is_one_message_and_loses_nothing(
    window, preferences, qtbot, step, monkeypatch
):
    monkeypatch.setattr(dask_executor, "CONNECT_TIMEOUT_S", 0.2)
    failed = []
    window.workbench.failed.connect(lambda _, error: failed.append(str(error)))
    preferences.change("run_on", NOWHERE)
    with change(qtbot, window.workbench, "stopped"):
        window.workbench.edit(lambda session: session.add(step))
    assert NOWHERE in errors(window).text()
    assert "Edit > Settings" in errors(window).text()
    errors(window).accept()
    with qtbot.waitSignal(window.workbench.noted, timeout=60_000):
        window.workbench.resolve()
    assert len(failed) == 1
    assert errors(window) is None
    assert indicator(window).text() == f"No connection to {NOWHERE}"
    assert window.workbench.session.steps == (step,)
    preferences.change("run_on", "")
    qtbot.waitUntil(lambda: has_resolved(window, step), timeout=60_000)
    assert window.workbench.resolved.resolution.total[0] > 0


def test_the_indicator_opens_the_settings(window, preferences, qtbot):
    preferences.change("run_on", NOWHERE)
    qtbot.waitUntil(indicator(window).isVisible)
    indicator(window).click()
    dialog = window.findChild(SettingsDialog)
    assert dialog.run_on.address.text() == NOWHERE
    dialog.close()


def test_no_thread_of_the_cluster_outlives_the_program(
    qtbot, preferences, demo_checkpoint, address, step
):
    before = set(threading.enumerate())
    windows = Windows(preferences, Path("prune-gui.log"))
    made = windows.make()
    with change(qtbot, made.workbench, "resolution"):
        made.commands.open_path(demo_checkpoint)
    preferences.change("run_on", address)
    made.workbench.edit(lambda session: session.add(step))
    qtbot.waitUntil(lambda: has_resolved(made, step), timeout=60_000)
    assert windows.close()
    left = {one.name for one in set(threading.enumerate()) - before if one.is_alive()}
    assert not {name for name in left if "prune-gui-cluster" in name or "IO loop" in name}
    made.hide()
    made.views.dismantle()
    made.deleteLater()
    windows.deleteLater()


@pytest.fixture
def field(qtbot):
    made = RunOnField()
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.fixture
def changes(field):
    found = []
    field.changed.connect(found.append)
    return found


def enter(field, address):
    field.place.setCurrentIndex(CLUSTER)
    field.address.setText(address)
    field.address.editingFinished.emit()


@pytest.mark.parametrize(
    "address",
    ["tcp://host:8786", "tls://node-1.example.org:1", "tcp://[::1]:8786", "host:8786", "local:4"],
)
def test_a_cluster_is_accepted_once(field, changes, address):
    enter(field, f" {address} ")
    field.address.editingFinished.emit()
    assert changes == [address]
    assert field.problem.text() == ""


@pytest.mark.parametrize(
    "address",
    [
        *("tcp://host", "host", "http://host:8786", "tcp://host:0", "tcp://host:65536"),
        *("tcp://ho st:8786", "tcp://:8786", "local:", "local:0", "local:x", "local:100000"),
    ],
)
def test_a_text_that_names_no_cluster_is_refused(field, changes, address):
    enter(field, address)
    assert not changes
    assert field.problem.text().startswith(f"{address} names no cluster.")
    assert field.accepted == ""


def test_jobs_run_here_until_an_address_is_typed(field, changes):
    assert field.address.isHidden()
    field.place.setCurrentIndex(CLUSTER)
    assert field.address.isVisible()
    assert field.problem.text() == "Jobs run on this machine until you type an address."
    field.place.setCurrentIndex(HERE)
    assert field.problem.isHidden()
    assert not changes


def test_this_machine_replaces_a_cluster(field, changes):
    enter(field, "local:4")
    field.place.setCurrentIndex(HERE)
    assert changes == ["local:4", ""]
    assert field.address.isHidden()


def test_without_the_package_a_cluster_is_refused_with_the_command_that_installs_it(
    field, changes, monkeypatch
):
    monkeypatch.setitem(sys.modules, "distributed", None)
    enter(field, "local:4")
    assert 'pip install "prune-gui[cluster]"' in field.problem.text()
    assert not changes
