"""Compilations and their count, the cache folders of compiled loops, and errors in writing."""

import errno
import os
import stat
import sys
from pathlib import Path

import pytest
from python_process import python
from system_faults import raising

from prune_gui.pruning.kernels import compilation
from prune_gui.pruning.kernels.compilation import _log_once, _PrivateFolder
from prune_gui.pruning.kernels.loop import compiled, compiled_within
from prune_gui.pruning.kernels.numba_control import _Loader, only_from_cache

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are those of POSIX")


def square(number):
    return number * number


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Make the user's cache folder, below `tmp_path`, the only one that can be written."""
    monkeypatch.setattr(
        "numba.core.caching.InTreeCacheLocator.ensure_cache_path",
        raising(PermissionError(errno.EROFS, "Read-only file system")),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _log_once.cache_clear()
    return tmp_path / "cache"


def cached_files(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.nb?"))


@posix
def test_a_read_only_installation_caches_loops_in_a_private_folder_of_the_user(cache):
    assert compiled(square)(3) == 9
    index, code = cached_files(cache)
    assert {index.suffix, code.suffix} == {".nbi", ".nbc"}
    assert stat.S_IMODE(index.parent.stat().st_mode) == 0o700


@posix
def test_without_a_writable_folder_loops_are_compiled_without_a_cache(cache, caplog):
    cache.write_text("no folder")
    assert compiled(square)(3) == 9
    assert "Compiled loops are not kept" in caplog.text


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_cache_folder_that_others_can_write_to_is_not_used(cache, mode):
    folder = Path(_PrivateFolder.from_function(square, __file__).get_cache_path())
    folder.chmod(mode)
    assert _PrivateFolder.from_function(square, __file__) is None


@posix
def test_a_cache_folder_of_another_user_is_not_used(cache, monkeypatch):
    assert _PrivateFolder.from_function(square, __file__) is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert _PrivateFolder.from_function(square, __file__) is None


@posix
@pytest.mark.parametrize("cache_home", ["", ".", "here"])
def test_no_cache_folder_depends_on_the_working_folder(cache, tmp_path, monkeypatch, cache_home):
    (tmp_path / "downloaded").mkdir()
    monkeypatch.chdir(tmp_path / "downloaded")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    assert compiled(square)(3) == 9
    assert not any(Path.cwd().iterdir())


@posix
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_cache_is_written_again(cache, caplog, suffix):
    compiled(square)(3)
    [damaged] = [path for path in cached_files(cache) if path.suffix == suffix]
    os.truncate(damaged, 3)
    assert compiled(square)(3) == 9
    assert "cannot be read" in caplog.text
    with only_from_cache():
        assert compiled(square)(3) == 9


@posix
def test_a_full_disk_disables_the_cache_but_not_the_loop(cache, monkeypatch, caplog):
    monkeypatch.setattr(
        "numba.core.caching.IndexDataCacheFile.save",
        raising(OSError(errno.ENOSPC, "No space left on device")),
    )
    assert compiled(square)(3) == 9
    assert "No space left on device" in caplog.text


def test_numba_reads_no_file_of_the_working_folder_however_often_it_compiles(tmp_path):
    (tmp_path / ".numba_config.yaml").write_text("debug: 1\nopt: 0\n")
    program = """
from prune_gui.pruning.kernels.loop import compiled_within, interpret_up_to
from prune_gui.pruning.kernels import compilation
from prune_gui.pruning.kernels.compilation import numba
interpret_up_to(0)
compiled_within(lambda number: number)(1)
print(numba.config.DEBUG, int(numba.config.OPT), numba.config.FUNCTION_CACHE_SIZE)
"""
    environment = {**os.environ, "NUMBA_FUNCTION_CACHE_SIZE": "77"}
    process = python("-P", "-c", program, cwd=tmp_path, env=environment)
    assert (process.returncode, process.stdout) == (0, "0 3 77\n"), process.stderr


def test_a_numba_without_the_known_config_file_name_is_rejected(tmp_path):
    (tmp_path / "config.py").write_text("name = '.other.yaml'\n")
    loader = _Loader("numba.core.config", str(tmp_path / "config.py"))
    with pytest.raises(ImportError, match="Install another version of numba"):
        loader.get_code("numba.core.config")


def test_a_compilation_is_known_while_it_runs_and_a_call_is_none(monkeypatch):
    class Running(list):
        def append(self, event):
            changes.append(1)
            super().append(event)

    changes, running = [], Running()
    monkeypatch.setattr(compilation, "COMPILATIONS", running)
    increased = compiled_within(lambda number: number + 1)
    for argument, compiled_before in ((1, 1), (2, 1), (0.5, 2)):
        assert increased(argument) == argument + 1
        assert len(changes) == compiled_before
        assert not running
