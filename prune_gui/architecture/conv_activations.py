"""The activation functions of torchvision's convolutional networks, from the names of the modules.

No file says them. A network whose names differ from torchvision's in any module has none here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from typing import Final

RELU: Final = "relu"
ALEXNET_FEATURES: Final = frozenset({0, 3, 6, 8, 10})
VGG_STAGES: Final = ((1, 1, 2, 2, 2), (2, 2, 2, 2, 2), (2, 2, 3, 3, 3), (2, 2, 4, 4, 4))
"""The number of convolutions before each pooling in VGG 11, 13, 16 and 19."""
CLASSIFIERS: Final = ({0, 3, 6}, {1, 4, 6})
"""The indices of the linear layers of VGG and of AlexNet."""
MOBILENET_V2: Final = re.compile(
    r"features\.\d+\.[01]|(?P<block>features\.\d+\.conv)\.(?P<index>\d+)(?:\.[01])?"
)
EFFICIENTNET: Final = re.compile(
    r"features\.\d+\.[01]"
    r"|(?P<block>features\.\d+\.\d+\.block)\.(?P<index>\d+)\.(?:[01]|fc1|fc2)"
)
EFFICIENTNET_BLOCKS: Final = (16, 23, 26, 32)
"""The number of blocks of EfficientNet B0 to B4; others have another epsilon in batch norms."""
SQUEEZE_FUNCTIONS: Final = {"fc1": "silu", "fc2": "sigmoid"}


def activation_functions(modules: Sequence[str]) -> dict[str, str]:
    """Return the function after the last module of each layer with its batch norm; "" for none.

    Modules of unknown networks are not in the result.
    """
    features = [path for path in modules if path.startswith("features")]
    if all(path.count(".") == 1 for path in features):
        return dict(_flat(features, modules))
    for names, function in ((MOBILENET_V2, "relu6"), (EFFICIENTNET, "silu")):
        matches = [match for match in map(names.fullmatch, features) if match]
        blocks: dict[str, set[str]] = defaultdict(set)
        for match in matches:
            if match["block"]:
                blocks[match["block"]].add(match["index"])
        is_known = names is MOBILENET_V2 or len(blocks) in EFFICIENTNET_BLOCKS
        if blocks and is_known and len(matches) == len(features):
            return dict(_of_blocks(matches, blocks, function))
    return {}


def vgg_stages(indices: Set[int]) -> list[list[range]]:
    """Return the layers before each pooling of a VGG; none for another network.

    A layer is the index of a convolution, and that of its batch norm if it has one.
    """
    for stages in VGG_STAGES:
        for modules in (1, 2):  # the convolution, and its batch norm
            start, found = 0, []
            for convolutions in stages:
                stop = start + convolutions * (modules + 1)  # after the last ReLU
                found.append([range(i, i + modules) for i in range(start, stop, modules + 1)])
                start = stop + 1  # after the pooling
            if indices == {index for stage in found for layer in stage for index in layer}:
                return found
    return []


def _flat(features: Sequence[str], modules: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the functions of VGG and AlexNet: each layer but the last is followed by ReLU."""
    indices = {int(path.rpartition(".")[2]) for path in features}
    layers = [layer[-1] for stage in vgg_stages(indices) for layer in stage]
    for last in sorted(indices) if indices == ALEXNET_FEATURES else layers:
        yield f"features.{last}", RELU
    classifier = {path.partition(".")[2] for path in modules if path.startswith("classifier")}
    for linear in CLASSIFIERS:
        if classifier == set(map(str, linear)):
            yield from ((f"classifier.{index}", RELU) for index in linear - {max(linear)})


def _of_blocks(
    matches: Sequence[re.Match[str]], blocks: dict[str, set[str]], function: str
) -> Iterator[tuple[str, str]]:
    """Yield the functions of networks of blocks, whose last layers have none."""
    for match in matches:
        path, block = match[0], match["block"]
        parent, _, leaf = path.rpartition(".")
        if leaf in SQUEEZE_FUNCTIONS:
            yield path, SQUEEZE_FUNCTIONS[leaf]
        elif block and leaf != "0" and int(match["index"]) == max(map(int, blocks[block])):
            yield path, ""
        elif leaf == "1" and parent != block:
            yield path, function
