"""The database of results: what is found again, and damage."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time

import pytest

from prune_gui import Recipe
from prune_gui.evaluation import Database, Evaluation, cache

COUNTING = """
    import os
    def evaluate(sd):
        with open(__file__ + ".calls", "a") as file:
            file.write("x")
        return float(sum(t.sum() for t in sd.values()))
"""


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "folder" / "evaluations.sqlite3")


def test_a_result_is_found_again(database):
    evaluation = Evaluation({"a": 0.5, "b": float("inf")}, 1.5, 1000, 3, 16)
    assert database.get("key") is None
    database.put("key", evaluation)
    found = Database(database.path).get("key")
    assert found == Evaluation({"a": 0.5, "b": float("inf")}, 1.5, 1000, 3, 16, cached=True)
    assert database.get("other") is None
    database.give_consent("digest")
    assert Database(database.path).has_consent("digest")
    assert not database.has_consent("another")


@pytest.mark.parametrize("content", [b"rubbish" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database_is_kept_aside_and_begun_anew(database, content, caplog):
    database.path.parent.mkdir()
    database.path.write_bytes(content)
    database.put("key", Evaluation({"a": 1.0}, 1, 1, 1, 1))
    assert database.get("key") is not None
    assert database.path.with_name("evaluations.sqlite3.damaged").read_bytes() == content


def test_a_damaged_row_is_ignored(database):
    database.put("key", Evaluation({"a": 1.0}, 1, 1, 1, 1))
    with sqlite3.connect(database.path) as connection:
        connection.execute("UPDATE evaluations SET metrics = '{'")
    connection.close()
    assert database.get("key") is None


def test_the_program_works_without_the_database(tmp_path):
    (tmp_path / "file").write_text("")
    database = Database(tmp_path / "file" / "evaluations.sqlite3")
    database.put("key", Evaluation({"a": 1.0}, 1, 1, 1, 1))
    assert database.get("key") is None
    assert not database.has_consent("digest")


def test_the_oldest_results_are_removed(database, monkeypatch):
    monkeypatch.setattr(cache, "MAX_ROWS", 3)
    for number in range(5):
        database.put(str(number), Evaluation({"a": 1.0}, 1, 1, 1, 1))
        time.sleep(0.001)
    assert [database.get(str(number)) is None for number in range(5)] == [True] * 2 + [False] * 3


@pytest.mark.slow
def test_several_programs_write_at_once(database):
    program = (
        "import sys; from pathlib import Path; from prune_gui.evaluation import *\n"
        "database = Database(Path(sys.argv[1]))\n"
        "for number in range(20):\n"
        "    database.put(f'{sys.argv[2]}-{number}', Evaluation({'a': 1.0}, 1, 1, 1, 1))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(database.path), str(number)])
        for number in range(4)
    ]
    assert [each.wait() for each in running] == [0] * 4
    assert all(database.get(f"{number}-{row}") for number in range(4) for row in range(20))


@pytest.mark.very_slow
@pytest.mark.slow
def test_nothing_is_evaluated_twice(evaluator, checkpoint, tmp_path, monkeypatch):
    calls = tmp_path / "own_eval.py.calls"

    def count(recipe=None, source=COUNTING, **options):
        before = len(calls.read_text()) if calls.exists() else 0
        made = evaluator(source, **options)
        result = made.evaluate(checkpoint, recipe)
        made.close()
        assert result.cached == (len(calls.read_text()) == before)
        return len(calls.read_text()) - before

    scores = tmp_path / "scores.safetensors"
    recipe = Recipe.from_yaml(
        'steps: [{method: l1_unstructured, targets: ["a.weight"], amount: 0.5, '
        f'importance: "{scores}"}}]'
    )
    scores.write_bytes(checkpoint.read_bytes())
    disabled = Recipe.from_yaml(
        'steps: [{method: l1_unstructured, targets: ["*"], amount: 0.5, enabled: false}]'
    )
    assert [count(), count(), count(disabled)] == [1, 0, 0]
    assert [count(recipe), count(recipe)] == [1, 0]
    assert [count(cache="fresh"), count(cache="off"), count()] == [1, 1, 0]
    assert [count(metric="value"), count(timeout_s=100.0)] == [0, 0]
    changed = bytearray(scores.read_bytes())
    changed[-1] ^= 1
    scores.write_bytes(changed)
    assert [count(recipe), count(recipe)] == [1, 0]
    assert [count(source=COUNTING + "    # changed"), count(pass_as="state_dict")] == [1, 1]
    table = tmp_path / "table.yaml"
    with_table = recipe.model_copy(update={"table": str(table)})
    table.write_text("one")
    assert [count(with_table), count(with_table)] == [1, 0]
    table.write_text("two")
    assert count(with_table) == 1
    (tmp_path / "neighbour.py").write_text("x = 1")
    assert [count(), count()] == [1, 0]
    monkeypatch.chdir(os.sep)
    assert count() == 1
