"""Calls csajit through its C ABI, taking torch tensors. Marshals and reports errors; judges no result.

Nothing here is compiled against PyTorch: tensors enter as address and strides. Importing this file does not need
torch, a GPU or the library.
"""

import ctypes
import os

from csajit_abi import (
    ACCUMULATE_GRAD_APE,
    APE_ABSENT,
    APE_PRESENT,
    BUILD_REBUILD,
    DTYPES,
    OK,
    BackwardArgs,
    BuildOptions,
    ForwardArgs,
    ServiceOptions,
    SpecStruct,
    Statistics,
    Tensor,
    load_library,
)


class CsajitError(RuntimeError):
    """A status that is not CSAJIT_OK, with the library's message."""

    def __init__(self, call, status, name, message):
        super().__init__(f"{call}: {name} ({status}): {message}")
        self.status = status
        self.status_name = name
        self.message = message


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
