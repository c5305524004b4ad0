"""The connection that jobs share: opened on first use, kept, and closed with its setting."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster
from polling import wait_until

from prune_gui.cluster import connection as connection_module
from prune_gui.cluster import dask_executor
from prune_gui.cluster.connection import THREAD_NAME, ClusterConnection, ClusterState
from prune_gui.errors import Cancelled, ClusterError
from prune_gui.executor import current_executor
from prune_gui.monitor import Monitor
from prune_gui.parallel import spread

NOWHERE = "tcp://127.0.0.1:1"
ONE_WORKER = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp"}
ONE_WORKER["dashboard_address"] = "127.0.0.1:0"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler in this process with one worker."""
    with LocalCluster(**ONE_WORKER) as one:
        with Client(one, set_as_default=False) as client:
            client.submit(int).result()  # starts its thread
        yield one.scheduler_address


@pytest.fixture
def states() -> list[ClusterState]:
    return []


@pytest.fixture
def connection(states) -> Iterator[ClusterConnection]:
    made = ClusterConnection(states.append)
    yield made
    assert made.close()


@pytest.fixture
def opened(calls_of) -> list[tuple[str, threading.Event]]:
    """The addresses to which a connection was opened, each with what cancels it."""
    return calls_of(connection_module, "open_cluster")


def negated(connection: ClusterConnection, monitor: Monitor | None = None) -> list[int]:
    with connection.use(may_wait=True):
        return list(spread(lambda number, _: -number, [1, 2, 3], monitor or Monitor()))


def cluster_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == THREAD_NAME]


def test_jobs_stay_here_without_a_cluster(connection, opened):
    with connection.use(may_wait=True):
        assert current_executor() is None
    assert negated(connection) == [-1, -2, -3]
    assert not opened


def test_the_first_job_connects_and_the_next_ones_use_the_same_connection(
    connection, states, opened, address
):
    connection.change(address)
    with connection.use(may_wait=True):
        assert current_executor() is not None
    assert not opened
    assert negated(connection) == negated(connection) == [-1, -2, -3]
    assert [where for where, _ in opened] == [address]
    wait_until(lambda: states[-1].workers == 1)
    assert [state.connecting for state in states] == [False, True, False]


def test_a_job_that_may_not_wait_uses_the_cluster_only_if_it_is_connected(connection, address):
    connection.change(address)
    with connection.use(may_wait=False):
        assert current_executor() is None
    negated(connection)
    with connection.use(may_wait=False):
        assert current_executor() is not None


def test_a_change_closes_the_connection(connection, states, opened, address):
    connection.change(address)
    negated(connection)
    connection.change("")
    wait_until(lambda: not cluster_threads())
    assert states[-1] == ClusterState()
    connection.change(address)
    negated(connection)
    assert [where for where, _ in opened] == [address, address]


def test_a_running_job_keeps_its_connection_after_a_change(connection, address):
    connection.change(address)
    with connection.use(may_wait=True):
        list(spread(lambda number, _: number, [1, 2], Monitor()))
        connection.change("")
        assert list(spread(lambda number, _: number, [1, 2], Monitor())) == [1, 2]
        assert current_executor() is not None
        assert cluster_threads()
    wait_until(lambda: not cluster_threads())


def test_a_scheduler_that_cannot_be_reached_is_named_with_the_way_out(
    connection, states, monkeypatch
):
    monkeypatch.setattr(dask_executor, "CONNECT_TIMEOUT_S", 0.2)
    connection.change(NOWHERE)
    with pytest.raises(ClusterError, match=rf"{NOWHERE} cannot be reached\..*Edit > Settings"):
        negated(connection)
    assert states[-1].where == NOWHERE
    assert "cannot be reached" in str(states[-1].error)
    connection.change("")
    assert negated(connection) == [-1, -2, -3]


def test_a_job_can_be_cancelled_while_it_waits_for_the_connection(connection):
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        connection.change(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        threading.Timer(0.2, stop.set).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            negated(connection, Monitor(cancel=stop))
        assert connection.close()
    assert time.monotonic() - started < dask_executor.CONNECT_TIMEOUT_S / 2


@pytest.mark.slow
def test_a_lost_scheduler_fails_the_job_and_the_next_one_connects_again(
    connection, states, monkeypatch, caplog
):
    monkeypatch.setattr(dask_executor, "CONNECT_TIMEOUT_S", 0.5)
    with LocalCluster(**ONE_WORKER) as one:
        connection.change(address := one.scheduler_address)
        assert negated(connection) == [-1, -2, -3]
    wait_until(lambda: states[-1].error is not None)
    assert f"{address} was lost" in str(states[-1].error)
    with pytest.raises(ClusterError, match="cannot be reached"):
        negated(connection)
    with LocalCluster(**ONE_WORKER, scheduler_port=int(address.rpartition(":")[2])):
        assert negated(connection) == [-1, -2, -3]
        connection.change("")
        wait_until(lambda: not cluster_threads())
