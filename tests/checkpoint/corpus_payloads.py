"""Files that need code to open: whole models, foreign classes, and payloads that would run."""

import argparse
import collections
import datetime as dt
import functools
import os
import pathlib
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from corpus_forms import (
    LEGACY,
    PREAMBLE,
    RAN,
    STATE,
    Bad,
    Harmless,
    archive,
    call,
    dictionary,
    file,
    legacy,
    name,
    saved,
    tensor,
    text,
)

from prune_gui.checkpoint.named_code import code_statement


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)


LIBRARY = """
import enum
import torch
from torch import nn

class Act(enum.Enum):
    SILU = 1

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.act = Act.SILU
        self.tanh = torch.tanh
        self.silu = nn.functional.silu
        self.register_buffer("anchors", torch.ones(2), persistent=False)

    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(Block(), nn.Linear(4, 4), nn.GroupNorm(2, 4))
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.model[1].weight
        self.unused = None
        self.register_parameter("empty", None)
        self.method = self.model[0].forward

    def forward(self, x):
        return x

    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        pass

class Config(dict):
    pass
"""


@contextmanager
def yolib() -> Iterator[Any]:
    """Yield a library with the classes of `LIBRARY`, which cannot be imported afterwards."""
    library = types.ModuleType("yolib")
    sys.modules["yolib"] = library
    try:
        exec(LIBRARY, vars(library))
        yield library
    finally:
        del sys.modules["yolib"]


def expected_names(module: torch.nn.Module) -> list[str]:
    return [key for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)]


class Payload:
    def __init__(self, function: object, *arguments: object) -> None:
        self.called = function, arguments

    def __reduce__(self) -> object:
        return self.called


def payload(folder: Path, kind: str) -> Payload:
    path = str(folder / RAN)
    return {
        "os.system": Payload(os.system, f"touch {path}"),
        "builtins.exec": Payload(exec, f"open({path!r}, 'w')"),
        "builtins.eval": Payload(eval, f"open({path!r}, 'w')"),
        "builtins.open": Payload(open, path, "w"),
        "os.mkdir": Payload(os.mkdir, path),
        "functools.partial": Payload(functools.partial, os.mkdir, path),
        "builtins.getattr": Payload(getattr, Payload(os.mkdir, path), "x"),
        "map": Payload(list, Payload(map, os.mkdir, [path])),
        "in-the-arguments": Payload(collections.OrderedDict, [("a", Payload(os.mkdir, path))]),
        "torch.load": Payload(torch.load, path),
        "torch.hub": Payload(torch.hub.load, path, "model"),
    }[kind]


MKDIR = "names posix.mkdir, which can run any program"
SAID = {
    "os.system": "names posix.system, which can run any program",
    "builtins.exec": "names builtins.exec, which can run any program",
    "builtins.eval": "names builtins.eval, which can run any program",
    "builtins.open": f"names code of {open.__module__}.",  # io or, from 3.12 on, _io
    **dict.fromkeys(("os.mkdir", "map", "functools.partial"), MKDIR),
    "builtins.getattr": "names posix.mkdir, posix.mkdir.x, which can run any program",
    "in-the-arguments": MKDIR,
    "torch.load": "names torch.serialization.load, which can run any program",
    "torch.hub": "names torch.hub.load, which can run any program",
}
"""What is said of each kind of payload."""


def alone(kind: str, **options: object) -> Callable[[Path], Path]:
    return lambda folder: saved(payload(folder, kind), **options)(folder)


def beside(kind: str, **options: object) -> Callable[[Path], Path]:
    return lambda folder: saved({"s": STATE, "p": payload(folder, kind)}, **options)(folder)


def inside(kind: str, **options: object) -> Callable[[Path], Path]:
    return lambda folder: saved({**STATE, "p": payload(folder, kind)}, **options)(folder)


def plain(content: Callable[[Path], object], protocol: int, into: str) -> Callable[[Path], Path]:
    return lambda folder: file(pickle.dumps(content(folder), protocol), into)(folder)


def marker(opcodes: bytes) -> Callable[[Path], Path]:
    """Return a function that writes opcodes, with @ replaced by the path of `RAN` as text."""
    return lambda folder: archive(opcodes.replace(b"@", text(str(folder / RAN))))(folder)


FOREIGN = {
    "numpy-array": np.ones(2),
    "numpy-scalar": {"best": np.float64(1.5), "s": STATE},
    "namespace": {"args": argparse.Namespace(lr=0.1), "model": STATE},
    "simple-namespace": {"args": types.SimpleNamespace(), "model": STATE},
    "defaultdict": collections.defaultdict(list, model=STATE),
    "path": {"path": pathlib.PurePosixPath("a"), **STATE},
    "date": {"date": dt.datetime(2020, 1, 1), "model": STATE},
    "partial": {"f": functools.partial(int, "2"), "model": STATE},
    "frozenset": {"f": frozenset("ab"), "model": STATE},
    "slice": {"f": slice(1), "model": STATE},
    "optimizer": {"o": torch.optim.SGD([torch.ones(1)]), "model": STATE},
}
UNLOADED = {
    "omegaconf": "omegaconf.listconfig.ListConfig",
    "lightning": "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint",
    "a-class-of-main": "__main__.Net",
    "jit": "torch.jit._script.RecursiveScriptModule",
    "load-from-bytes": "torch.storage._load_from_bytes",
    "import-by-name": "torch._utils._import_dotted_name",
    "getattr": "builtins.getattr",
    "a-name-with-a-dot": "torch._utils._rebuild_tensor.__globals__",
    "os-by-main": "__main__.os.system",
    "builtins-by-main": "__main__.__builtins__.exec",
    "sympy": "sympy.simplify",
    "jinja2": "jinja2.environment.Template",
    "yaml": "yaml.unsafe_load_all",
    "file-writer": "torch.PyTorchFileWriter",
    "full-width-letters": "\uff4f\uff53.system",
}
SOURCE = b"(" + text("module") + name("__main__.Net") + text("net.py") + text("class Net") + b"tQ"

PAYLOADS: dict[str, Bad | Harmless] = {
    **{
        f"{kind}-alone-{form}": Bad(says, alone(kind, **options))
        for kind, says in SAID.items()
        for form, options in {"zip": {}, "legacy": LEGACY}.items()
    },
    **{
        f"{kind}-{where.__name__}-{form}": Harmless(where(kind, **options), says=says)
        for kind, says in SAID.items()
        for form, options in {"zip": {}, "legacy": LEGACY}.items()
        for where in (beside, inside)
    },
    **{
        f"plain-protocol-{protocol}": Bad(
            MKDIR, plain(lambda folder: payload(folder, "os.mkdir"), protocol, "m.bin")
        )
        for protocol in range(6)
    },
    **{
        f"torch-{form}-protocol-{protocol}": Harmless(
            inside("os.mkdir", pickle_protocol=protocol, **options), says=MKDIR
        )
        for form, options in {"zip": {}, "legacy": LEGACY}.items()
        for protocol in range(1, 6)
    },
    **{
        f"torch-{form}-protocol-0": Bad(
            "something other than storages", inside("os.mkdir", pickle_protocol=0, **options)
        )
        for form, options in {"zip": {}, "legacy": LEGACY}.items()
    },
    **{
        f"nothing-foreign-{form}-protocol-{protocol}": Harmless(
            saved(STATE, pickle_protocol=protocol, **options)
        )
        for protocol in (3, 4, 5)
        for form, options in {"zip": {}, "legacy": LEGACY}.items()
    },
    "plain-dict-of-tensors": Bad(  # each tensor contains another pickle, which is not checked
        "that torch.save did not write", plain(lambda _: dict(STATE), 2, "m.pt")
    ),
    "plain-data": Bad("that torch.save did not write", plain(lambda _: {"a": [1, 2]}, 2, "m.pt")),
    "plain-named-safetensors": Bad("Rename", plain(lambda _: {"a": 1}, 2, "m.safetensors")),
    "whole-module": Harmless(saved(Net())),
    "whole-module-legacy": Harmless(saved(Net(), **LEGACY)),
    "whole-module-of-torch": Harmless(saved(torch.nn.Linear(1, 1))),
    "whole-module-in-a-dict": Harmless(saved({"epoch": 1, "model": Net()})),
    "whole-module-with-its-source": Harmless(
        legacy(
            SOURCE
            + b")\x81"
            + dictionary(_modules=b"}", _parameters=dictionary(w=tensor()), _buffers=b"}")
            + b"b"
        )
    ),
    "foreign-object-alone": Bad("no state dict", saved(argparse.Namespace(lr=0.1))),
    "name-of-the-file-odd": Harmless(saved(Net(), 'a"\\b.pt')),
    "name-of-the-file-long": Harmless(saved(Net(), "n" * 200 + ".pt")),
    **{f"foreign-{kind}": Harmless(saved(content)) for kind, content in FOREIGN.items()},
    **{
        f"unloaded-{kind}": Harmless(
            archive(dictionary(a=tensor(), b=name(path) + b")R")), says=code_statement([path])
        )
        for kind, path in UNLOADED.items()
    },
    **{
        f"tensor-{kind}-of-nothing": Bad(
            "in a way torch does not write",
            archive(dictionary(a=tensor(), b=name(f"torch._utils._rebuild_{kind}") + b")R")),
        )
        for kind in ("wrapper_subclass", "device_tensor_from_numpy")
    },
    "class-made-without-a-call": Harmless(
        archive(dictionary(a=tensor(), b=name("a.B") + b")\x81}b"))
    ),
    "class-only-named": Harmless(archive(dictionary(a=tensor(), b=name("a.B")))),
    "class-of-a-very-long-name": Harmless(
        archive(dictionary(a=tensor(), b=name(f"{'a' * 10**5}.{'b' * 10**5}") + b")R"))
    ),
    "class-with-signs-in-its-name": Harmless(
        archive(dictionary(a=tensor(), b=b"\x8c\x05a\x1b[2J\x8c\x01B\x93)R"))
    ),
    "extension-registry": Bad("extension number 7", archive(b"\x82\x07)R")),
    "extension-registry-4": Bad("extension number 70000", archive(b"\x84\x70\x11\x01\0)R")),
    "called-by-a-tensor-type": Bad(
        "posix.mkdir",
        marker(
            call("torch._tensor._rebuild_from_type_v2", b"cposix\nmkdir\n", b"N", b"@\x85", b"N")
        ),
    ),
    "python-2-names": Bad("builtins.eval", archive(b"c__builtin__\neval\n" + text("1") + b"\x85R")),
    "python-2-object": Harmless(
        archive(
            dictionary(
                a=tensor(), b=b"ccopy_reg\n_reconstructor\n(ca\nB\nc__builtin__\nobject\nNtR}b"
            )
        )
    ),
    "reference-in-text": Bad("something other than storages", archive(b"P../../etc/passwd\n")),
    "reference-to-a-number": Bad("something other than storages", archive(b"K\x07Q")),
    "reference-to-a-module": Bad(
        "no state dict", archive(b"(" + text("module") + name("a.B") + b"tQ)R")
    ),
    "legacy-preamble-with-a-payload": Bad(
        "posix.mkdir",
        lambda folder: file(
            pickle.dumps(PREAMBLE[0], 2) + pickle.dumps(payload(folder, "os.mkdir"), 2) * 4
        )(folder),
    ),
    "legacy-keys-with-a-payload": Bad(
        "posix.mkdir",
        lambda folder: file(
            b"".join(pickle.dumps(value, 2) for value in (*PREAMBLE, {}))
            + pickle.dumps(payload(folder, "os.mkdir"), 2)
        )(folder),
    ),
}
