"""The structs, constants and functions of csajit.h in ctypes. Knows layouts; calls nothing.

Compared with the header, field by field, by test_ctypes_layout.py.
"""

import ctypes
import glob
import os

OK = 0
E_INVALID_ARGUMENT = 100
E_STRUCT_SIZE = 110
E_UNSUPPORTED = 120
E_DISABLED = 200
E_JIT_DISABLED = 210
E_NOT_PREPARED = 220
E_NOT_PREPARED_IN_CAPTURE = 230

SERVICE_REQUIRE_PREPARED = 1 << 0
SERVICE_DISABLE_LOCK = 1 << 1
SERVICE_NO_JIT = 1 << 2
SERVICE_NO_FAST_LAUNCH = 1 << 3
SERVICE_VALIDATE = 1 << 4
SERVICE_MEMORY_ONLY = 1 << 5

DTYPE_DEFAULT = 0
DTYPE_BF16 = 1
DTYPE_FP16 = 2
DTYPE_FP32 = 3
DTYPES = {"bf16": DTYPE_BF16, "fp16": DTYPE_FP16, "fp32": DTYPE_FP32}

APE_PRESENT = 0
APE_ABSENT = 1
ACCUMULATE_GRAD_APE = 1 << 0
BUILD_REBUILD = 1 << 0


class ServiceOptions(ctypes.Structure):
    c_name = "csajit_service_options"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cache_dir", ctypes.c_char_p),
        ("cache_ro_dirs", ctypes.c_char_p),
        ("nvrtc_path", ctypes.c_char_p),
        ("arch", ctypes.c_char_p),
        ("cache_max_bytes", ctypes.c_uint64),
        ("cache_trust", ctypes.c_uint32),
        ("lock_wait_ms", ctypes.c_uint32),
    ]


class SpecStruct(ctypes.Structure):
    c_name = "csajit_spec"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("ratio", ctypes.c_uint32),
        ("head_dim", ctypes.c_uint32),
        ("coff", ctypes.c_uint32),
        ("kv_dtype", ctypes.c_uint32),
        ("score_dtype", ctypes.c_uint32),
        ("out_dtype", ctypes.c_uint32),
        ("ape", ctypes.c_uint32),
    ]


class KernelInfo(ctypes.Structure):
    c_name = "csajit_kernel_info"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("origin", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("arch", ctypes.c_char_p),
        ("nvrtc", ctypes.c_char_p),
        ("error", ctypes.c_char_p),
        ("status", ctypes.c_uint32),
        ("registers", ctypes.c_uint32),
        ("spill_bytes", ctypes.c_uint32),
        ("stack_bytes", ctypes.c_uint32),
        ("static_smem_bytes", ctypes.c_uint32),
        ("dynamic_smem_bytes", ctypes.c_uint32),
        ("cubin_bytes", ctypes.c_uint64),
        ("compile_ms", ctypes.c_double),
        ("published", ctypes.c_uint32),
        ("record_bytes", ctypes.c_uint32),
    ]


class BuildOptions(ctypes.Structure):
    c_name = "csajit_build_options"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("arch", ctypes.c_char_p),
        ("callback", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("jobs", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class Tensor(ctypes.Structure):
    c_name = "csajit_tensor"
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("row_stride", ctypes.c_int64),
        ("segment_stride", ctypes.c_int64),
    ]


class ForwardArgs(ctypes.Structure):
    c_name = "csajit_forward_args"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("num_tokens", ctypes.c_int64),
        ("num_segments", ctypes.c_int64),
        ("total_comp", ctypes.c_int64),
        ("cu_seqlens", ctypes.c_void_p),
        ("cu_seqlens_comp", ctypes.c_void_p),
        ("kv", Tensor),
        ("score", Tensor),
        ("ape", Tensor),
        ("out", Tensor),
    ]


class BackwardArgs(ctypes.Structure):
    c_name = "csajit_backward_args"
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("num_tokens", ctypes.c_int64),
        ("num_segments", ctypes.c_int64),
        ("total_comp", ctypes.c_int64),
        ("cu_seqlens", ctypes.c_void_p),
        ("cu_seqlens_comp", ctypes.c_void_p),
        ("kv", Tensor),
        ("score", Tensor),
        ("ape", Tensor),
        ("grad_out", Tensor),
        ("grad_kv", Tensor),
        ("grad_score", Tensor),
        ("grad_ape", Tensor),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_uint64),
    ]


class Statistics(ctypes.Structure):
    c_name = "csajit_statistics"
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64)
        for name in (
            "memory_hits",
            "disk_hits",
            "compiles",
            "compile_failures",
            "rejected_entries",
            "publish_failures",
            "module_loads",
            "fast_launches",
            "regular_launches",
            "compile_ns",
            "disk_ns",
            "load_ns",
        )
    ]


STRUCTS = (
    ServiceOptions,
    SpecStruct,
    KernelInfo,
    BuildOptions,
    Tensor,
    ForwardArgs,
    BackwardArgs,
    Statistics,
)


def find_library():
    """The library's path: CSAJIT_LIBRARY, else the newest libcsajit.so under the repository's build folders."""
    named = os.environ.get("CSAJIT_LIBRARY")
    if named:
        return named
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = []
    for pattern in ("build/libcsajit.so", "build/*/libcsajit.so", "build/**/libcsajit.so", "build-*/**/libcsajit.so"):
        found += glob.glob(os.path.join(root, pattern), recursive=True)
    if not found:
        raise FileNotFoundError("libcsajit.so was not found under build/; build it or set CSAJIT_LIBRARY to its path")
    return max(found, key=os.path.getmtime)


def load_library(path=None):
    """dlopens the library and declares every function used here."""
    lib = ctypes.CDLL(path or find_library())
    status = ctypes.c_int
    pointer = ctypes.c_void_p
    declare = {
        "csajit_status_string": (ctypes.c_char_p, [status]),
        "csajit_last_error": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
        "csajit_version": (ctypes.c_uint32, []),
        "csajit_service_create": (status, [ctypes.POINTER(ServiceOptions), ctypes.POINTER(pointer)]),
        "csajit_service_destroy": (None, [pointer]),
        "csajit_build": (status, [pointer, ctypes.POINTER(SpecStruct), ctypes.POINTER(BuildOptions)]),
        "csajit_prepare": (status, [pointer, ctypes.POINTER(SpecStruct), pointer]),
        "csajit_unload_context": (status, [pointer]),
        "csajit_workspace_size": (
            status,
            [ctypes.POINTER(SpecStruct), ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64)],
        ),
        "csajit_forward": (status, [pointer, ctypes.POINTER(SpecStruct), ctypes.POINTER(ForwardArgs), pointer]),
        "csajit_backward": (status, [pointer, ctypes.POINTER(SpecStruct), ctypes.POINTER(BackwardArgs), pointer]),
        "csajit_get_statistics": (status, [pointer, ctypes.POINTER(Statistics)]),
    }
    for name, (result, arguments) in declare.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    return lib
