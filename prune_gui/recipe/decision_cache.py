"""What steps decided before, so that an edit decides anew only what depends on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from prune_gui.pruning.methods import Decision

KEPT_AT_MOST: Final = 256
"""Steps; a decision is a few numbers per target."""


class DecisionCache:
    """Remembers the decisions of the last steps by all that they follow from."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, list[Decision]] = OrderedDict()

    def get(self, question: Hashable, decide: Callable[[], list[Decision]]) -> list[Decision]:
        """Return what was decided on a question, or decide it now.

        Args:
            question: the method, its targets, and the predicates that come before it.
            decide: is asked if the question is new; what it raises is not remembered.
        """
        if question not in self._known:
            self._known[question] = decide()
            if len(self._known) > KEPT_AT_MOST:
                self._known.popitem(last=False)
        self._known.move_to_end(question)
        return self._known[question]
