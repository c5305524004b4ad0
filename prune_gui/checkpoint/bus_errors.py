"""Mapped pages that cannot be read: zeros and a note in place of the end of the process.

The system sends SIGBUS to a thread that touches a mapped page which another program has cut off, or
which a faulty disk does not give, and that ends the process. A check before each use leaves the
moment between the check and the use. So a handler of the signal maps zeros over the lost pages,
notes that, and the thread goes on; what it made of them is thrown away (see `Source.check`).

A handler may call next to nothing: it is compiled from a few lines of LLVM's language, as Python
cannot run in it. Windows does not let a mapped file be cut off; macOS is not handled.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import sys
import threading
import weakref
from functools import cache
from typing import Final

MAX_SPANS: Final = 1 << 16
"""Mappings that are watched at once; the system allows about as many (vm.max_map_count)."""
FIELDS: Final = 3
"""Numbers that the handler knows of each mapping."""
SA_FLAGS: Final = 0x4 | 0x08000000 | 0x40000000
"""SA_SIGINFO: tell the address; SA_ONSTACK; SA_NODEFER: the handler itself may be interrupted."""
SUPPORTED: Final = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

HANDLER: Final = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @sigaction(i32, ptr, ptr)

define void @handle(i32 %signal, ptr %info, ptr %context) {{
entry:
  %field = getelementptr i8, ptr %info, i64 16      ; siginfo_t.si_addr
  %address = load i64, ptr %field
  %table = inttoptr i64 {spans} to ptr
  br label %search
search:
  %index = phi i64 [0, %entry], [%next, %another]
  %start_field = getelementptr i64, ptr %table, i64 %index
  %stop_field = getelementptr i64, ptr %start_field, i64 1
  %note_field = getelementptr i64, ptr %start_field, i64 2
  %start = load i64, ptr %start_field
  %stop = load i64, ptr %stop_field
  %above = icmp uge i64 %address, %start
  %below = icmp ult i64 %address, %stop
  %inside = and i1 %above, %below
  br i1 %inside, label %replace, label %another
another:
  %next = add i64 %index, {fields}
  %end = icmp uge i64 %next, {length}
  br i1 %end, label %leave, label %search
replace:
  %note = load ptr, ptr %note_field
  store i64 1, ptr %note
  %page = and i64 %address, {page_mask}
  %nbytes = sub i64 %stop, %page
  %where = inttoptr i64 %page to ptr
  ; PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS
  %mapped = call ptr @mmap(ptr %where, i64 %nbytes, i32 3, i32 50, i32 -1, i64 0)
  %failed = icmp ne ptr %mapped, %where
  br i1 %failed, label %leave, label %done
leave:
  ; not ours: hand over to the handler before this one, for when the instruction is tried again;
  ; it may hand the signal back, and then the default (a null handler) ends the process
  %before = inttoptr i64 {before} to ptr
  %ignored = call i32 @sigaction(i32 %signal, ptr %before, ptr null)
  store ptr null, ptr %before
  br label %done
done:
  ret void
}}
"""


class _SigAction(ctypes.Structure):
    """`struct sigaction` of glibc and musl on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Handler:
    """The compiled handler, and the table of the mappings that it watches.

    Attributes:
        spans: for each mapping its start, its stop and where a loss is noted, as addresses; zeros
            where there is none.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self.spans = (ctypes.c_uint64 * (FIELDS * MAX_SPANS))()
        self._free = list(range(0, FIELDS * MAX_SPANS, FIELDS))[::-1]
        self._lock = threading.Lock()
        self._before = _SigAction()
        self._libc = ctypes.CDLL(None, use_errno=True)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(
            HANDLER.format(
                spans=ctypes.addressof(self.spans),
                length=FIELDS * MAX_SPANS,
                fields=FIELDS,
                page_mask=-mmap.PAGESIZE,
                before=ctypes.addressof(self._before),
            )
        )
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._compiled = llvm.create_mcjit_compiler(module, machine)
        self._compiled.finalize_object()
        self._action = _SigAction(
            handler=self._compiled.get_function_address("handle"), flags=SA_FLAGS
        )

    def watch(self, pages: mmap.mmap, lost: ctypes.c_uint64) -> None:
        """Watch a mapping until it goes; see `watch`."""
        with self._lock:
            self._install()
            if not self._free:
                return
            slot = self._free.pop()
            start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            self.spans[slot + 2] = ctypes.addressof(lost)
            self.spans[slot + 1] = start + -(-len(pages) // mmap.PAGESIZE) * mmap.PAGESIZE
            self.spans[slot] = start
        weakref.finalize(pages, self._forget, slot, lost).atexit = False  # keeps the note, too

    def _forget(self, slot: int, _: ctypes.c_uint64) -> None:
        for field in range(FIELDS):
            self.spans[slot + field] = 0
        self._free.append(slot)

    def _install(self) -> None:
        """Put the handler first, also when somebody has asked for the signal since."""
        current = _SigAction()
        self._libc.sigaction(signal.SIGBUS, None, ctypes.byref(current))
        if current.handler != self._action.handler:
            self._libc.sigaction(
                signal.SIGBUS, ctypes.byref(self._action), ctypes.byref(self._before)
            )


@cache
def _handler() -> _Handler:
    return _Handler()


def watch(pages: mmap.mmap, lost: ctypes.c_uint64) -> None:
    """Let the process survive when pages of a private mapping cannot be read.

    Args:
        pages: the mapping, watched until it goes.
        lost: becomes 1 when zeros take the place of pages.
    """
    if SUPPORTED:
        _handler().watch(pages, lost)
