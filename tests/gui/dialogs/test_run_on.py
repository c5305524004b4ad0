"""The field of the settings for where jobs run."""

from __future__ import annotations

import sys

import pytest

from prune_gui.gui.cluster import CLUSTER, HERE, RunOnField


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
