import random

import pytest
from fuzzing.targets import TARGETS

MUTATIONS = 60


def mutated(octets: bytes, generator: random.Random) -> bytes:
    """Return a copy with some bytes changed, deleted or repeated."""
    result = bytearray(octets)
    for _ in range(generator.randint(1, 4)):
        position = generator.randrange(len(result) or 1)
        match generator.randrange(3):
            case 0:
                result[position : position + 1] = bytes([generator.randrange(256)])
            case 1:
                del result[position : position + generator.randint(1, 8)]
            case 2:
                result[position:position] = result[position : position + generator.randint(1, 30)]
    return bytes(result)


@pytest.mark.filterwarnings("ignore:.*ypedStorage.*")
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_refused_or_read_as_the_reference_reads_them(name):
    target, generator = TARGETS[name], random.Random(name)
    for seed in target.seeds():
        target.run(seed)
        for _ in range(MUTATIONS):
            target.run(mutated(seed, generator))
