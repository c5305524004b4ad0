"""Torch files with pickles that make false claims, use excessive resources, or are unusual."""

import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from corpus_forms import (
    LEGACY,
    STATE,
    Bad,
    Harmless,
    archive,
    call,
    dictionary,
    legacy,
    long,
    name,
    octets_of,
    saved,
    shaped,
    storage,
    tensor,
    text,
)

BIG = 10**12
TYPED = "torch._tensor._rebuild_from_type_v2"
V2 = name("torch._utils._rebuild_tensor_v2")


def archive_of_value(value: bytes, **options: object) -> Callable[[Path], Path]:
    return archive(dictionary(a=value), **options)


def sparse(shape: bytes, indices: bytes | None = None) -> bytes:
    layout = call("torch.serialization._get_layout", text("torch.sparse_coo"))
    numbers = storage("1", b"K\x02", "torch.LongStorage")
    indices = (
        tensor(numbers, shape=shaped(1, 2), strides=shaped(2, 1)) if indices is None else indices
    )
    values = tensor(shape=shaped(2))
    return call(
        "torch._utils._rebuild_sparse_tensor", layout, b"(" + indices + values + shape + b"t"
    )


FOREIGN = name("a.B") + b")R"
"""The opcodes for an object that needs code."""
TENTH = b"G?\xb9\x99\x99\x99\x99\x99\x9a"


def quantized(
    shape: bytes,
    strides: bytes,
    *,
    key: str = "0",
    kind: str = "per_tensor_affine",
    parameters: bytes = TENTH + b"K\x00",
) -> bytes:
    of = storage(key, kind="torch.QInt32Storage")
    scheme = b"(" + name(f"torch.{kind}") + parameters + b"t"
    return call(
        "torch._utils._rebuild_qtensor", of, b"K\x00", shape, strides, scheme, b"\x89", b"}"
    )


def quantized_by(kind: str, parameters: bytes) -> bytes:
    return quantized(shaped(4), shaped(1), key="1", kind=kind, parameters=parameters)


def meta(shape: bytes, strides: bytes) -> bytes:
    return call(
        "torch._utils._rebuild_meta_tensor_no_storage",
        name("torch.float32"),
        shape,
        strides,
        b"\x89",
    )


def device_tensor(of: bytes, dtype: str = "torch.float64") -> bytes:
    return call(
        "torch._utils._rebuild_device_tensor_from_cpu_tensor", of, name(dtype), text("cpu"), b"\x89"
    )


def module_in(modules: bytes) -> bytes:
    """Return the opcodes for a module with others in it, which is memoized as number 1."""
    attributes = dictionary(_parameters=dictionary(w=tensor()), _modules=modules)
    return name("a.B") + b")\x81q\x01" + attributes + b"b"


def doubled_tuples(times: int) -> bytes:
    """Return the opcodes for nested tuples, each of which contains the inner one twice."""
    return b")q\x00" + b"0h\x00h\x00\x86q\x00" * times


def codec_bomb(times: int) -> bytes:
    """Return the opcodes for a text whose length a codec doubles `times` times."""
    result = call("_codecs.encode", text("a"), text("latin1"))
    for _ in range(times):
        result = call("_codecs.encode", result, text("hex"))
    return result


def view(key: str, start: int, size: int) -> bytes:
    """Return the opcodes for a reference to a view of a storage, as in legacy files."""
    whole = storage()[:-2]
    return whole + b"(" + text(key) + long(start) + long(size) + b"ttQ"


def saved_beside(make: Callable[[], torch.Tensor]) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return saved({"a": make(), **STATE})(folder)

    return save


def cyclic() -> dict[str, object]:
    nest: dict[str, object] = {"a": torch.ones(2)}
    nest["self"] = nest
    nest["list"] = [nest]
    return nest


LIES: dict[str, list[bytes]] = {
    "declared with 4,000,000,000,000 bytes": [tensor(storage(numel=long(BIG)))],
    "storage '0' of -1 elements": [tensor(storage(numel=long(-1)))],
    "of 4611686018427387904 elements": [tensor(storage(numel=long(1 << 62)))],
    "storage '7' is missing": [tensor(storage("7"))],
    "storage '../version' is missing": [tensor(storage("../version"))],
    "storage 'é' of 4 elements": [tensor(storage("é"))],
    "it holds something other than storages": [tensor(storage(kind="torch.OddStorage"))],
    "which does not fit": [
        tensor(shape=shaped(5)),
        tensor(shape=shaped(BIG)),
        tensor(offset=b"K\x01"),
        tensor(shape=shaped(2, 2), strides=shaped(3, 1)),
        tensor(shape=shaped(3), strides=shaped(1 << 61)),
        call(
            TYPED,
            V2,
            name("torch.Tensor"),
            b"(" + storage() + b"K\x00" + shaped(9) + shaped(1) + b"\x89}t",
            b"}",
        ),
        tensor(shape=shaped(17), rest=name("torch.float8_e5m2"), version="_v3"),
        tensor(shape=shaped(16), rest=name("torch.uint8")),
    ],
    "declares a tensor of an impossible": [
        tensor(shape=shaped(-1)),
        tensor(strides=shaped(-1)),
        tensor(shape=shaped(2, 2)),
        tensor(offset=long(-1)),
        tensor(offset=long(2**80)),
        tensor(shape=shaped(0, 2**40, 2**40), strides=shaped(1, 1, 1)),
        tensor(shape=shaped(*[1] * 65), strides=shaped(*[1] * 65)),
        tensor(shape=shaped(2**30, 2**30), strides=shaped(0, 0)),
        sparse(shaped(2**40, 2**40)),
        meta(shaped(2**40, 2**40), shaped(1, 1)),
        meta(shaped(-1), shaped(1)),
        meta(b"]", shaped(1)),
    ],
    "a tensor in a way torch does not write": [
        tensor(long(1)),
        tensor(shape=b"]"),
        call(TYPED, V2, name("torch.Tensor"), b"]", b"}"),
        device_tensor(b"N"),
    ],
    "unknown dtype torch.int4": [tensor(rest=name("torch.int4"), version="_v3")],
    "it declares the storage '0' with two types": [
        b"("
        + tensor(storage(numel=b"K\x02", kind="torch.DoubleStorage"), shape=shaped(2))
        + tensor(storage(numel=b"K\x10", kind="torch.ByteStorage"), shape=shaped(16))
        + b"t"
    ],
    "without filling it": [
        call("builtins.bytearray", long(BIG)),
        call("builtins.bytearray", text("a" * 99), text("utf-32")),
    ],
    "without contents": [
        call("torch.FloatTensor", long(BIG)),
        call("torch.storage.UntypedStorage", long(BIG)),
        call("torch.Tensor", long(BIG)),
        call("torch.float32"),
    ],
    "repeats the elements of a quantized tensor": [quantized(shaped(2**33), shaped(0))],
    "sparse tensor in a way torch does not write": [sparse(shaped(3), b"K\x00")],
    "it changes a tensor after building it": [tensor() + b"}b"],
    "its pickle is damaged": [b"]}b"],
    "it replaces 'items' of a OrderedDict": [
        call("collections.OrderedDict") + dictionary(items=b"K\x03") + b"b"
    ],
    "it replaces 'detach' of a Tensor": [
        call(TYPED, V2, name("torch.Tensor"), tensor()[len(V2) : -1], dictionary(detach=b"K\x03"))
    ],
    "it replaces 'data' of a Tensor": [
        call(
            "torch._utils._rebuild_parameter_with_state",
            tensor(),
            b"\x88",
            b"}",
            dictionary(data=b"K\x03"),
        )
    ],
    "it attaches other data to a tensor": [
        tensor(hooks=b"K\x03"),
        tensor(hooks=dictionary(hook=b"K\x03")),
    ],
    "a parameter in a way torch does not write": [
        call("torch._utils._rebuild_parameter", b"K\x03")
    ],
}
ONES = torch.ones(2)
WITHOUT_STATES: dict[str, object] = {
    "no-tensors": {"epoch": 1},
    "set-of-tensors": {ONES},
    "optimizer-alone": {"state": {0: {"m": ONES}}, "param_groups": []},
    "numbers-for-keys": {0: ONES},
    "bytes-for-keys": {b"a": ONES},
}
UNUSUAL: dict[str, object] = {
    "single-tensor": ONES,
    "list-of-tensors": [ONES],
    "tuple-of-tensors": (ONES, torch.ones(2)),
    "list-of-tensors-in-a-dict": {"weights": [ONES]},
    "other-keys-too": {**STATE, 0: ONES, None: ONES},
    "keys-that-are-tuples": {"a": ONES, ("b", (1,)): 3},
    "containers": {**STATE, "l": [ONES], "s": {1, "a"}, "t": ((1, 2), bytearray(b"x"), b"y")},
    "odd-keys": dict.fromkeys(["", "a\0b", "../a", "a/b", "a\nb", "." * 300], ONES),
    "key-of-a-megabyte": {"n" * 10**6: ONES},
    "many-states": {f"{i}": {"a" * 999: torch.ones(1)} for i in range(1000)},
    "complex": {"a": torch.ones(2, dtype=torch.complex64).conj()},
    "negative-view": {"a": torch.ones(2, dtype=torch.cfloat).conj().imag},
    "meta": {"a": torch.ones(3, device="meta"), **STATE},
    "expanded-to-2**40": {"a": torch.ones(1).expand(2**40), **STATE},
    "empty": {"a": torch.ones(0, 3), "b": torch.tensor(1.0)},
    "8-bit-float": {"a": torch.ones(3).to(torch.float8_e5m2)},
    "attributes": torch.nn.Linear(2, 2).state_dict(),
    "cycle": cyclic(),
}
WARNED: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse-rows": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(ONES, 0.1, 0, torch.qint8),
    "quantized-by-channel": lambda: torch.quantize_per_channel(
        torch.ones(2, 2), ONES, torch.zeros(2), 0, torch.quint8
    ),
}
TWO_RECORDS = {"data/0": bytes(16), "data/1": bytes(16)}
OF_ONE_VALUE: dict[str, bytes] = {
    "sparse-of-2**49": sparse(shaped(2**49)),
    "meta-of-2**49": meta(shaped(2**49), shaped(1)),
    "parameter-with-a-mark": call(
        "torch._utils._rebuild_parameter_with_state",
        tensor(),
        b"\x88",
        call("collections.OrderedDict"),
        dictionary(tensor_model_parallel=b"\x88"),
    ),
    "from-another-device": device_tensor(tensor()),
}
SCHEMES = ("per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams")
BY_OBJECTS = (
    *(FOREIGN + b"K\x00", TENTH + FOREIGN, FOREIGN + FOREIGN + b"K\x00"),
    tensor() + tensor() + FOREIGN,
)
BY_NOTHING = (
    *(b"NK\x00", b"", TENTH + text("x"), b"]]K\x00", text("a") + text("b") + b"K\x00"),
    tensor() + tensor() + b"K\x07",
)


def beside_quantized(scheme: str, parameters: bytes) -> Callable[[Path], Path]:
    return archive(dictionary(w=tensor(), q=quantized_by(scheme, parameters)), TWO_RECORDS)


ODD: dict[str, Bad | Harmless] = {
    **{key: Bad("no state dict", saved(content)) for key, content in WITHOUT_STATES.items()},
    **{f"harmless-{key}": Harmless(saved(content)) for key, content in UNUSUAL.items()},
    **{f"harmless-{key}": Harmless(saved_beside(make)) for key, make in WARNED.items()},
    **{
        f"harmless-{key}": Harmless(archive_of_value(value, records=TWO_RECORDS))
        for key, value in OF_ONE_VALUE.items()
    },
    **{
        f"harmless-quantized-by-objects-{scheme}-{number}": Harmless(
            beside_quantized(scheme, parameters), says="1 tensor that is in no state dict"
        )
        for scheme in SCHEMES
        for number, parameters in enumerate(BY_OBJECTS)
    },
    **{
        f"quantized-by-nothing-{scheme}-{number}": Bad(
            "cannot be opened", beside_quantized(scheme, parameters)
        )
        for scheme in SCHEMES
        for number, parameters in enumerate(BY_NOTHING)
    },
    "harmless-sparse-outside-its-shape": Harmless(
        archive_of_value(sparse(shaped(1)), records={"data/0": bytes(16), "data/1": b"\x7f" * 16})
    ),
    "key-with-a-surrogate": Bad("not valid text", saved({"\ud800": ONES})),
    "harmless-tensor-that-needs-code": Harmless(
        archive(
            dictionary(a=tensor(), b=call("torch._utils._rebuild_wrapper_subclass", name("a.B")))
        ),
        says="1 tensor that is in no state dict",
    ),
    "harmless-python-2": Harmless(
        archive(name("collections.OrderedDict") + b"(]](U\x01a" + tensor() + b"eatR")
    ),
    "harmless-deep-dicts": Harmless(
        archive(dictionary(a=tensor(), n=b"}" + (text("n") + b"}") * 100_000 + b"s" * 100_000))
    ),
    "harmless-deep-lists": Harmless(
        archive(dictionary(a=tensor(), n=b"]" * 100_000 + b"a" * 99_999))
    ),
    "deep-states": Harmless(
        archive((b"}" + text("a") + tensor() + b"s" + text("n")) * 3000 + b"N" + b"s" * 3000)
    ),
}
LYING: dict[str, Bad | Harmless] = {
    **{
        f"{says}-{number}": Bad(says, archive_of_value(value, records=TWO_RECORDS))
        for says, values in LIES.items()
        for number, value in enumerate(values)
    },
    "a-storage-of-two-sizes": Bad(
        "'0' with two sizes",
        legacy(dictionary(a=tensor(storage(numel=b"K\x02"), shape=shaped(2)), b=tensor())),
    ),
    "a-conjugate-that-repeats-its-elements": Bad(
        "repeats the elements of a conjugate",
        archive(
            dictionary(
                a=tensor(
                    storage(numel=b"K\x01", kind="torch.ComplexFloatStorage"),
                    shape=shaped(2**40),
                    strides=shaped(0),
                    rest=dictionary(conj=b"\x88"),
                )
            ),
            {"data/0": bytes(8)},
        ),
    ),
    "a-view-beside-a-foreign-object": Bad(
        "does not fit its 16 bytes", archive(dictionary(x=FOREIGN, w=tensor(offset=b"K\x01")))
    ),
    "storage-shorter-than-claimed": Bad(
        "and has 15", archive_of_value(tensor(), records={"data/0": bytes(15)})
    ),
    "a-view-of-a-legacy-storage": Bad(
        "does not fit its 8 bytes", legacy(dictionary(a=tensor(view("v", 1, 2))))
    ),
    "a-view-past-a-legacy-storage": Bad(
        "describes a storage in a way", legacy(dictionary(a=tensor(view("v", 3, 2))))
    ),
    "a-legacy-storage-claimed-twice": Bad(
        "its tensors need 4,000,000,008 bytes",
        legacy(dictionary(a=tensor(storage(numel=long(10**9))), b=tensor())),
    ),
    "a-legacy-storage-that-is-not-listed": Bad(
        "storages are missing", legacy(dictionary(a=tensor()), keys=("1",))
    ),
    "legacy-keys-that-are-none": Bad("storages are", legacy(dictionary(a=tensor()), keys=(0,))),
    "a-legacy-storage-of-another-size": Bad(
        "does not have its declared size",
        legacy(dictionary(a=tensor()), data=(3).to_bytes(8, "little") + bytes(16)),
    ),
    "legacy-of-a-newer-dtype": Bad(
        "newer than its file format", saved({"a": torch.ones(2).to(torch.float8_e5m2)}, **LEGACY)
    ),
    "legacy-of-more-than-follows": Bad(
        "partial download", legacy(dictionary(a=tensor()), data=bytes(23))
    ),
}
TOO_DEEP = "nested too deeply"
BESIDE = dictionary(a=tensor())
OF_ONE_HASH = b"".join(long((2**61 - 1) * i) for i in range(50_000))
UNPACKED: dict[str, tuple[str, bytes]] = {
    "a-module-in-itself": (TOO_DEEP, module_in(dictionary(me=b"h\x01"))),
    "modules-doubled": (
        TOO_DEEP,
        module_in(b"}") + (b"0" + module_in(dictionary(a=b"h\x01", b=b"h\x01"))) * 40,
    ),
    "bytes-without-end-in-an-archive": ("damaged", b"\x8e" + (2**62).to_bytes(8, "little")),
    "memo-far-away": ("no state dict", b"}r\xff\xff\xff\xff"),
    "tuples-deep": ("nests tuples", BESIDE + b")" + b"\x85" * 10**6 + b"Ns"),
    "tuples-doubled": ("nests tuples", BESIDE + doubled_tuples(64) + b"Ns"),
    "tuples-doubled-in-a-set": (
        "nests tuples too deeply",
        call("builtins.set", b"]" + doubled_tuples(64) + b"a"),
    ),
    "codec-that-grows": ("without filling it", dictionary(a=codec_bomb(40))),
    "keys-of-one-hash": (
        "too many unusual keys",
        b"}(" + b"".join(long((2**61 - 1) * i) + b"N" for i in range(50_000)) + b"u",
    ),
    "set-of-one-hash": (
        "too many unusual keys",
        call("builtins.set", b"](" + OF_ONE_HASH + b"e"),
    ),
    "copies-of-a-repeated-view": (
        "cannot be read in chunks",
        dictionary(a=device_tensor(tensor(shape=shaped(2**45), strides=shaped(0)))),
    ),
    "storage-of-a-terabyte": (
        "declared with 1,",
        dictionary(a=tensor(storage(numel=long(2**38)))),
    ),
    "dicts-deep-in-dicts": (
        "no state dict",
        b"}" + (text("n") + b"}") * 200_000 + b"s" * 200_000,
    ),
    "attributes-that-many-objects-share": (
        TOO_DEEP,
        name("a.B")
        + b"q\x010}q\x02("
        + b"".join(b"M" + i.to_bytes(2, "little") + b"N" for i in range(1 << 16))
        + b"u0]("
        + b"h\x01)\x81h\x02b" * 20_000
        + b"e",
    ),
    "arguments-that-many-calls-share": (
        TOO_DEEP,
        name("a.B") + b"q\x010(" + b"N" * 10**5 + b"tq\x020](" + b"h\x01h\x02R" * 20_000 + b"e",
    ),
    "classes-without-number": (
        "too many classes",
        b"](" + b"".join(name(f"a.B{i}") for i in range(20_000)) + b"e",
    ),
    "names-that-are-repeated": (
        "copies the same values",
        text("a" * 10**6) + b"q\x01](" + b"h\x01h\x01\x93" * 5000 + b"e",
    ),
}
FOLLOWED: dict[str, tuple[str, bytes]] = {
    "text-without-end": ("declares a string of", b"\x8d" + (2**40).to_bytes(8, "little")),
    "bytes-without-end": ("declares a string of", b"\x8e" + (2**62).to_bytes(8, "little")),
    "legacy-storage-of-a-terabyte": (
        "partial download",
        dictionary(a=tensor(storage(numel=long(2**38)))),
    ),
}
BOMBS: dict[str, Bad | Harmless] = {
    **{key: Bad(says, archive(value), True) for key, (says, value) in UNPACKED.items()},
    **{key: Bad(says, legacy(value), True) for key, (says, value) in FOLLOWED.items()},
    "records-nested-deeply": Harmless(
        archive(
            dictionary(a=tensor(), n=name("a.B") + b"q\x010N" + b"q\x020h\x01h\x02\x85R" * 100_000)
        ),
        True,
    ),
    "containers-without-number": Bad(
        "unpacks from", archive(b"](" + b"}" * 10**7 + b"e", compression=zipfile.ZIP_DEFLATED), True
    ),
}
PICKLES: dict[str, Bad | Harmless] = {**LYING, **ODD, **BOMBS}
PICKLES |= {
    f"cut-{form}-at-{share}": Bad(
        "m.pt", lambda folder, octets=octets, share=share: _cut(folder, octets, share)
    )
    for form, octets in {"zip": octets_of(STATE), "legacy": octets_of(STATE, **LEGACY)}.items()
    for share in (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999)
}
PICKLES |= {
    f"pickle-cut-at-{share}": Bad(
        "m.pt", archive(dictionary(a=tensor(), b=tensor())[: int(share * 200)])
    )
    for share in (0, 0.1, 0.5, 0.9)
}


def _cut(folder: Path, octets: bytes, share: float) -> Path:
    path = folder / "m.pt"
    path.write_bytes(octets[: int(share * len(octets))])
    return path
