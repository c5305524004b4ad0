"""The database of evaluations and consents: a file that several programs may use at once.

The program works without it, so no error of the database is an error of an evaluation.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from platformdirs import user_data_path

from prune_gui.evaluation.metrics import metrics_of

log = logging.getLogger(__name__)

Result = TypeVar("Result")

TIMEOUT_S: Final = 10.0
"""Timeout for other programs that write."""
MAX_ROWS: Final = 100_000
"""Limit on the evaluations; the oldest are removed."""
DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS evaluations (
        key TEXT PRIMARY KEY, metrics TEXT NOT NULL, seconds REAL NOT NULL, memory INTEGER NOT NULL,
        pruned INTEGER NOT NULL, total INTEGER NOT NULL, made REAL NOT NULL
    );
    CREATE INDEX IF NOT EXISTS by_age ON evaluations (made);
    CREATE TABLE IF NOT EXISTS consents (digest TEXT PRIMARY KEY);
"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluator returned; `memory` is the peak of its processes in bytes, resident."""

    metrics: dict[str, float]
    seconds: float
    memory: int
    pruned: int
    total: int
    cached: bool = False

    @property
    def sparsity(self) -> float:
        """The share of elements that is pruned, in [0, 1]."""
        return self.pruned / self.total if self.total else 0.0


class Database:
    """The results of evaluations by key, and the digests that the user consented to."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or user_data_path("prune-gui", appauthor=False) / "evaluations.sqlite3"

    def get(self, key: str) -> Evaluation | None:
        """Return the stored result of an evaluation, or None."""
        columns = "metrics, seconds, memory, pruned, total"
        query = f"SELECT {columns} FROM evaluations WHERE key = ?"
        row = self._try(lambda connection: connection.execute(query, (key,)).fetchone())
        if row is None:
            return None
        try:
            metrics, *figures = row
            seconds, memory, pruned, total = figures
            return Evaluation(
                metrics_of(json.loads(metrics)), float(seconds), int(memory), int(pruned),
                int(total), cached=True,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - whatever a damaged row holds
            log.warning("%s has an invalid row: %s", self.path, error)
            return None

    def put(self, key: str, evaluation: Evaluation) -> None:
        """Store the result of an evaluation, in place of an earlier one."""
        row = (
            *(key, json.dumps(evaluation.metrics), evaluation.seconds, evaluation.memory),
            *(evaluation.pruned, evaluation.total, time.time()),
        )

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO evaluations VALUES (?,?,?,?,?,?,?)", row)
            connection.execute(
                "DELETE FROM evaluations WHERE key IN (SELECT key FROM evaluations "
                "ORDER BY made DESC LIMIT -1 OFFSET ?)",
                (MAX_ROWS,),
            )

        self._try(write)

    def has_consent(self, digest: str) -> bool:
        """Return whether the user consented to run the code with a digest."""
        query = "SELECT 1 FROM consents WHERE digest = ?"
        found = self._try(lambda connection: connection.execute(query, (digest,)).fetchone())
        return found is not None

    def give_consent(self, digest: str) -> None:
        """Remember that the user consented to run the code with a digest."""
        insert = "INSERT OR IGNORE INTO consents VALUES (?)"
        self._try(lambda connection: connection.execute(insert, (digest,)))

    def _try(self, act: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """Return the result of `act` in a transaction; None on errors. Renames a damaged file."""
        for attempt in range(2):
            try:
                with self._connected() as connection:
                    return act(connection)
            except (sqlite3.Error, OSError) as error:
                log.warning("%s cannot be used: %s", self.path, error)
                if attempt or getattr(error, "sqlite_errorcode", None) not in DAMAGE:
                    return None
                with suppress(OSError):
                    self.path.replace(self.path.with_name(f"{self.path.name}.damaged"))
        return None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=TIMEOUT_S)) as connection, connection:
            connection.executescript(SCHEMA)
            yield connection
