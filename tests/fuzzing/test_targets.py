from __future__ import annotations

import random

import pytest
from fuzzing.targets import TARGETS

MUTATIONS = 60


def mutated(octets: bytes, chance: random.Random) -> bytes:
    """Return bytes of which some are changed, left out or repeated."""
    made = bytearray(octets)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made) or 1)
        match chance.randrange(3):
            case 0:
                made[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del made[at : at + chance.randint(1, 8)]
            case 2:
                made[at:at] = made[at : at + chance.randint(1, 30)]
    return bytes(made)


@pytest.mark.filterwarnings("ignore:.*ypedStorage.*")
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_near_a_good_one_breaks_a_promise(name):
    target, chance = TARGETS[name], random.Random(name)
    for seed in target.seeds():
        target.run(seed)
        for _ in range(MUTATIONS):
            target.run(mutated(seed, chance))
