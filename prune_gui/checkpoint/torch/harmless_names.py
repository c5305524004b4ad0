"""Names of Python's standard library, numpy and torch that only create or compute values.

Files may name any code of these three. Only what checkpoints need is listed.
"""

from __future__ import annotations

import re
import sys
from typing import Final

REMOVED_FROM_STDLIB: Final = frozenset(
    [
        *("_bootsubprocess", "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk"),
        *("crypt", "distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib"),
        *("ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
    ]
)
"""Packages of Python 3.11's standard library that later versions do not have."""
STDLIB: Final = sys.stdlib_module_names | REMOVED_FROM_STDLIB
"""The packages of Python's standard library, the same whatever version runs."""
OPERATORS: Final = (
    "add|and_|eq|floordiv|ge|getitem|gt|iadd|imul|itemgetter|le|lt|matmul|mod|mul|ne|neg|or_|pow|sub"
    "|truediv"
)
HARMLESS_IN_PYTHON: Final = {
    "__main__": r"[\w.]+",
    "_codecs": "encode",
    "_io": "BytesIO|StringIO",
    "_operator": OPERATORS,
    "_random": "Random",
    "abc": "ABC|ABCMeta",
    "argparse": "Namespace",
    "array": "array|_array_reconstructor",
    "builtins": (
        "bool|bytearray|bytes|complex|dict|float|frozenset|int|list|object|range|set|slice|str|tuple"
        r"|type|abs|all|any|len|max|min|round|sorted|sum|enumerate|iter|print|reversed|zip|Ellipsis"
        r"|NoneType|NotImplemented|(Base)?Exception|[A-Z]\w*(Error|Exception|Warning)"
    ),
    "cmath": r"\w+",
    "collections": r"(abc\.)?[A-Z]\w*|defaultdict|deque",
    "contextlib": "nullcontext",
    "copy": "copy|deepcopy",
    "copyreg": "_reconstructor|__newobj__|__newobj_ex__",
    "dataclasses": r"Field|_[A-Z_]+|_\w+_TYPE",
    "datetime": "date|datetime|time|timedelta|timezone",
    "decimal": r"[A-Z]\w*",
    "enum": r"[A-Z]\w*|auto",
    "fractions": "Fraction",
    "functools": "partial|partialmethod",
    "http": r"HTTPStatus(\.\w+)?",
    "inspect": r"Parameter|Signature|_ParameterKind(\.\w+)?|_empty",
    "io": "BytesIO|StringIO",
    "ipaddress": r"[A-Z]\w*",
    "itertools": r"\w+",
    "logging": "Filter|Formatter|Logger|RootLogger|getLogger",
    "math": r"\w+",
    "numbers": r"\w+",
    "operator": OPERATORS,
    "pathlib": r"(_local\.)?(Pure)?(Path|PosixPath|WindowsPath)",
    "random": "Random",
    "re": r"_compile|Pattern|Regex\w+",
    "string": "Template",
    "time": "struct_time",
    "types": "GenericAlias|MappingProxyType|NoneType|SimpleNamespace|UnionType",
    "typing": r"[A-Z]\w*|_\w*(Alias|Form)",
    "uuid": r"UUID|SafeUUID(\.\w+)?",
    "zoneinfo": r"ZoneInfo(\._unpickle)?",
}
"""The names by module, as patterns."""
HARMLESS_IN_NUMPY: Final = (
    r"_?core\.(multiarray\.(_reconstruct|scalar)|numeric\._frombuffer)|dtype|generic|ndarray"
    r"|random\.(\w+\.)?\w+|ma\.core\.(MaskedArray|_mareconstruct)|dtypes\.\w+"
    r"|(matrixlib\.defmatrix\.)?matrix|((_?core\.records|rec)\.)?recarray|poly1d"
    r"|bool_?|u?int\w*|float\w*|complex\w*|half|single|double|longlong|str_|bytes_|void|(date|timed)\w+64"
    r"|abs|absolute|amax|amin|arange|argmax|argmin|array|asarray|clip|exp|inf|linspace|log|log10|max"
    r"|mean|median|min|nan|ones|pi|prod|sqrt|std|sum|tanh|var|zeros"
)
HARMLESS_IN_TORCH: Final = (
    r"(?!import_|from_file)[A-Za-z]\w*|_assert"
    r"|(amp|ao|distributions|nn|optim|quantization)\.[\w.]+"
    r"|(fft|functional|linalg|nested|random|return_types|sparse|special)\.\w+"
    r"|autograd\.(function|grad_mode|variable)\.\w+|nested\._internal\.nested_tensor\.NestedTensor"
    r"|cuda\.(amp\.[\w.]+|\w+(Storage|Tensor))"
    r"|_(utils|tensor)\._rebuild_\w+|serialization\._get_layout|storage\.\w+Storage"
    r"|_C\.(_fft|_linalg|_nn|_special|_VariableFunctions(Class)?|_?TensorBase|Generator|memory_format)"
    r"(\.\w+)?"
    r"|_dynamo\.(eval_frame\.Optimize\w+|convert_frame\.(CatchErrorsWrapper|ConvertFrame\w*)"
    r"|repro\.after_dynamo\.WrapBackendDebug|hooks\.Hooks)|_TorchCompileInductorWrapper(\.get_compiler_config)?"
    r"|distributed\.((_shard|_tensor|algorithms|checkpoint\.metadata|device_mesh|fsdp|optim|tensor)\."
    r"(\w+\.)*_*[A-Z]\w*"
    r"|distributed_c10d\.ReduceOp(\.\w+)?)"
    r"|fx\.((graph|graph_module|immutable_collections|node|proxy|_pytree|_symbolic_trace)\.)?"
    r"(_*[A-Z]\w*(\.\w+)?|immutable_\w+)"
    r"|ops(\.\w+){2,3}"
    r"|utils\.(_ordered_set|_pytree|checkpoint|hooks)\.\w+"
    r"|utils\.data\.(_utils\.collate|dataloader|dataset|distributed|sampler)\.\w+"
)

_PATTERNS: Final = {
    root: re.compile(pattern, re.ASCII)
    for root, pattern in {
        **HARMLESS_IN_PYTHON,
        "numpy": HARMLESS_IN_NUMPY,
        "torch": HARMLESS_IN_TORCH,
    }.items()
}


def is_listed(path: str) -> bool:
    """Return whether a name is among those that are listed here.

    Args:
        path: the dotted path, with the names of Python 3.
    """
    root, _, name = path.partition(".")
    return root in _PATTERNS and _PATTERNS[root].fullmatch(name) is not None


def is_listed_package(path: str) -> bool:
    """Return whether the harmless names of the package of a name are listed here."""
    root = path.partition(".")[0]
    return root in _PATTERNS or root in STDLIB
