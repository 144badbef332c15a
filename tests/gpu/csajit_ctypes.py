"""The C ABI of csajit.h in ctypes, taking torch tensors. Knows layouts and calls; judges no result.

Nothing here is compiled against PyTorch: tensors enter as address and strides. The mirror is compared with the
header by test_ctypes_layout.py. Importing this file does not need torch, a GPU or the library.
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
        ("reserved", ctypes.c_uint32),
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


class CsajitError(RuntimeError):
    """A status that is not CSAJIT_OK, with the library's message."""

    def __init__(self, call, status, name, message):
        super().__init__(f"{call}: {name} ({status}): {message}")
        self.status = status
        self.status_name = name
        self.message = message


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


class Spec:
    """ratio, head_dim, coff, dtype names of kv, score and out, APE present or not."""

    def __init__(self, ratio, head_dim, coff, kv="bf16", score=None, out=None, ape=True):
        self.ratio = ratio
        self.head_dim = head_dim
        self.coff = coff
        self.kv = kv
        self.score = score or kv
        self.out = out or kv
        self.ape = ape

    @property
    def columns(self):
        return self.coff * self.head_dim

    @property
    def window(self):
        return self.coff * self.ratio

    @property
    def is_short(self):
        """Whether the bit-equal row of the numerics contract applies."""
        return self.window <= 16 and self.head_dim > 1

    def struct(self):
        return SpecStruct(
            ctypes.sizeof(SpecStruct),
            self.ratio,
            self.head_dim,
            self.coff,
            DTYPES[self.kv],
            DTYPES[self.score],
            DTYPES[self.out],
            APE_PRESENT if self.ape else APE_ABSENT,
        )

    def __str__(self):
        types = self.kv if self.kv == self.score == self.out else f"{self.kv}/{self.score}/{self.out}"
        return f"r{self.ratio} d{self.head_dim} c{self.coff} {types}{'' if self.ape else ' no-ape'}"


def describe_tensor(tensor):
    """A 2-D tensor (tokens or rows, columns) or a batched 3-D view (segment, token, columns); None: absent."""
    if tensor is None:
        return Tensor(None, 0, 0)
    if tensor.dim() not in (2, 3):
        raise ValueError("a tensor must be (rows, columns) or (segments, tokens, columns)")
    if tensor.size(-1) > 1 and tensor.stride(-1) != 1:
        raise ValueError("columns must be adjacent")
    # PyTorch may give any stride to a dimension of one element; the library checks every stride it is given.
    row_stride = max(tensor.stride(-2), tensor.size(-1))
    segment_stride = tensor.stride(0) if tensor.dim() == 3 else 0
    return Tensor(tensor.data_ptr() or None, row_stride, segment_stride)


def count_tokens(tensor):
    return tensor.size(0) if tensor.dim() == 2 else tensor.size(0) * tensor.size(1)


def stream_handle(stream=None):
    """The handle of a torch stream, of an integer handle, or of torch's current stream."""
    if stream is None:
        import torch

        stream = torch.cuda.current_stream()
    return ctypes.c_void_p(getattr(stream, "cuda_stream", stream) or None)


class Service:
    """One csajit_service. Every failing call raises CsajitError with the library's own message."""

    def __init__(self, flags=0, cache_dir=None, nvrtc_path=None, library=None):
        self.lib = load_library(library)
        options = ServiceOptions(struct_size=ctypes.sizeof(ServiceOptions), flags=flags)
        options.cache_dir = os.fsencode(cache_dir) if cache_dir else None
        options.nvrtc_path = os.fsencode(nvrtc_path) if nvrtc_path else None
        self.handle = ctypes.c_void_p()
        self._check(
            "csajit_service_create",
            self.lib.csajit_service_create(ctypes.byref(options), ctypes.byref(self.handle)),
        )

    def close(self):
        if self.handle:
            self.lib.csajit_service_destroy(self.handle)
            self.handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def last_error(self):
        size = self.lib.csajit_last_error(None, 0)
        buffer = ctypes.create_string_buffer(max(size, 1))
        self.lib.csajit_last_error(buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def status_name(self, status):
        return self.lib.csajit_status_string(status).decode()

    def _check(self, call, status):
        if status != OK:
            raise CsajitError(call, status, self.status_name(status), self.last_error())

    def build(self, spec, arch, jobs=1, rebuild=False):
        """Compiles every kernel of spec for a named architecture into the cache; needs no GPU."""
        options = BuildOptions(struct_size=ctypes.sizeof(BuildOptions), flags=BUILD_REBUILD if rebuild else 0)
        options.arch = arch.encode()
        options.jobs = jobs
        self._check(
            "csajit_build", self.lib.csajit_build(self.handle, ctypes.byref(spec.struct()), ctypes.byref(options))
        )

    def prepare(self, spec, stream=None):
        self._check(
            "csajit_prepare",
            self.lib.csajit_prepare(self.handle, ctypes.byref(spec.struct()), stream_handle(stream)),
        )

    def unload_context(self):
        """Unloads every module from the current context; no captured graph may be replayed afterwards."""
        self._check("csajit_unload_context", self.lib.csajit_unload_context(None))

    def workspace_size(self, spec, total_comp):
        size = ctypes.c_uint64()
        self._check(
            "csajit_workspace_size",
            self.lib.csajit_workspace_size(ctypes.byref(spec.struct()), total_comp, ctypes.byref(size)),
        )
        return size.value

    def statistics(self):
        figures = Statistics(struct_size=ctypes.sizeof(Statistics))
        self._check("csajit_get_statistics", self.lib.csajit_get_statistics(self.handle, ctypes.byref(figures)))
        return {name: getattr(figures, name) for name, _ in Statistics._fields_[2:]}

    def forward(self, spec, kv, score, ape, cu, comp, out, stream=None):
        """Enqueues the forward; cu and comp are int32 device tensors of num_segments + 1 elements."""
        args = ForwardArgs(
            struct_size=ctypes.sizeof(ForwardArgs),
            num_tokens=count_tokens(kv),
            num_segments=cu.numel() - 1,
            total_comp=out.size(0),
            cu_seqlens=cu.data_ptr(),
            cu_seqlens_comp=comp.data_ptr(),
            kv=describe_tensor(kv),
            score=describe_tensor(score),
            ape=describe_tensor(ape),
            out=describe_tensor(out),
        )
        self._check(
            "csajit_forward",
            self.lib.csajit_forward(
                self.handle, ctypes.byref(spec.struct()), ctypes.byref(args), stream_handle(stream)
            ),
        )

    def backward(
        self,
        spec,
        kv,
        score,
        ape,
        cu,
        comp,
        grad_out,
        grad_kv,
        grad_score,
        grad_ape,
        workspace=None,
        accumulate_grad_ape=False,
        stream=None,
    ):
        """Enqueues the backward; a gradient that is None is not wanted; workspace is a uint8 tensor or None."""
        args = BackwardArgs(
            struct_size=ctypes.sizeof(BackwardArgs),
            flags=ACCUMULATE_GRAD_APE if accumulate_grad_ape else 0,
            num_tokens=count_tokens(kv),
            num_segments=cu.numel() - 1,
            total_comp=grad_out.size(0),
            cu_seqlens=cu.data_ptr(),
            cu_seqlens_comp=comp.data_ptr(),
            kv=describe_tensor(kv),
            score=describe_tensor(score),
            ape=describe_tensor(ape),
            grad_out=describe_tensor(grad_out),
            grad_kv=describe_tensor(grad_kv),
            grad_score=describe_tensor(grad_score),
            grad_ape=describe_tensor(grad_ape),
            workspace=None if workspace is None else workspace.data_ptr() or None,
            workspace_bytes=0 if workspace is None else workspace.numel(),
        )
        self._check(
            "csajit_backward",
            self.lib.csajit_backward(
                self.handle, ctypes.byref(spec.struct()), ctypes.byref(args), stream_handle(stream)
            ),
        )
