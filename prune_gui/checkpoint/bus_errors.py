"""A SIGBUS handler that replaces unreadable mapped pages by zeros.

The system sends SIGBUS to a thread that touches a mapped page which another program has truncated,
or which a faulty disk cannot read. By default this ends the process. A check before each access
would leave a race between check and access. The handler therefore maps zeros over the lost pages
and sets a flag; the thread continues, and `Source.check` discards its result. Reading with `pread`
instead takes a third longer where a pass over the weights is quick (see
`benchmarks/mapped_reading.py`), and could not return a tensor that is larger than the memory.

A signal handler may call only async-signal-safe functions, and Python cannot run in it, so it is
compiled from LLVM IR. Windows does not let a mapped file be truncated; macOS is not handled.
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

MAX_MAPPINGS: Final = 1 << 16
"""Mappings watched at once; the default of vm.max_map_count is about the same."""
FIELDS_PER_MAPPING: Final = 3
"""64-bit fields of the table per mapping: start, stop, address of the flag."""
SIGACTION_FLAGS: Final = 0x4 | 0x08000000 | 0x40000000
"""SA_SIGINFO (passes the address), SA_ONSTACK, SA_NODEFER (the handler may be interrupted)."""
SUPPORTED: Final = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

HANDLER_IR: Final = """
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
    """The compiled handler, and its table: start, stop and flag of each mapping; 0 if free."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm  # slow to import

        self.spans = (ctypes.c_uint64 * (FIELDS_PER_MAPPING * MAX_MAPPINGS))()
        self._free = list(range(0, FIELDS_PER_MAPPING * MAX_MAPPINGS, FIELDS_PER_MAPPING))[::-1]
        self._lock = threading.Lock()
        self._before = _SigAction()
        self._libc = ctypes.CDLL(None, use_errno=True)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(
            HANDLER_IR.format(
                spans=ctypes.addressof(self.spans),
                length=FIELDS_PER_MAPPING * MAX_MAPPINGS,
                fields=FIELDS_PER_MAPPING,
                page_mask=-mmap.PAGESIZE,
                before=ctypes.addressof(self._before),
            )
        )
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._compiled = llvm.create_mcjit_compiler(module, machine)
        self._compiled.finalize_object()
        self._action = _SigAction(
            handler=self._compiled.get_function_address("handle"), flags=SIGACTION_FLAGS
        )

    def watch(self, pages: mmap.mmap, lost: ctypes.c_uint64) -> None:
        """Watch a mapping until it is deleted."""
        with self._lock:
            self._install()
            if not self._free:
                return
            slot = self._free.pop()
            start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            self.spans[slot + 2] = ctypes.addressof(lost)
            self.spans[slot + 1] = start + -(-len(pages) // mmap.PAGESIZE) * mmap.PAGESIZE
            self.spans[slot] = start
        weakref.finalize(pages, self._forget, slot, lost).atexit = False  # also keeps `lost` alive

    def _forget(self, slot: int, _: ctypes.c_uint64) -> None:
        for field in range(FIELDS_PER_MAPPING):
            self.spans[slot + field] = 0
        self._free.append(slot)

    def _install(self) -> None:
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
    """Keep the process running when pages of a private mapping cannot be read."""
    if SUPPORTED:
        _handler().watch(pages, lost)
