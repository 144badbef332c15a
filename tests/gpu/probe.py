"""Small CUDA kernels for tests, compiled by NVRTC and launched through the driver, over ctypes. Knows no csajit.

NVRTC is the one of CSAJIT_NVRTC_PATH, the loader path, PyTorch's wheels or the toolkit folder. Needs a current CUDA
context (torch.zeros(1, device="cuda") makes one) to load and to launch, none to compile.
"""

import ctypes
import glob
import os
import sys

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CUfunction_attribute


def _nvrtc_candidates():
    if os.environ.get("CSAJIT_NVRTC_PATH"):
        yield os.environ["CSAJIT_NVRTC_PATH"]
    folders = []
    for base in sys.path:
        folders += sorted(glob.glob(os.path.join(base, "nvidia", "cu*", "lib")), reverse=True)
        folders.append(os.path.join(base, "nvidia", "cuda_nvrtc", "lib"))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            folders.append(os.path.join(os.environ[variable], "lib64"))
    folders += ["/usr/local/cuda/lib64", "/usr/local/cuda/lib"]
    for folder in folders:
        yield from sorted(glob.glob(os.path.join(folder, "libnvrtc.so.[0-9]*")), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12")


def load_nvrtc():
    for path in _nvrtc_candidates():
        # Off the loader path NVRTC does not find its builtins by itself.
        if os.path.dirname(path):
            for builtins in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.[0-9]*")):
                ctypes.CDLL(builtins)
        try:
            nvrtc = ctypes.CDLL(path)
        except OSError:
            continue
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        return nvrtc
    raise FileNotFoundError("no libnvrtc was found; set CSAJIT_NVRTC_PATH")


def compile_cubin(source, arch, options=(), include_dirs=()):
    """The cubin of a source for arch ("sm_90"). Contraction and flush-to-zero are off, as in csajit's own kernels."""
    nvrtc = load_nvrtc()
    program = ctypes.c_void_p()

    def check(status, what):
        if status == 0:
            return
        size = ctypes.c_size_t()
        log = b""
        if program and nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0:
            buffer = ctypes.create_string_buffer(size.value + 1)
            nvrtc.nvrtcGetProgramLog(program, buffer)
            log = buffer.value
        raise RuntimeError(f"{what}: {nvrtc.nvrtcGetErrorString(status).decode()}\n{log.decode()}")

    flags = [f"--gpu-architecture={arch}", "--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true"]
    flags += [f"--include-path={folder}" for folder in include_dirs] + list(options)
    array = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"probe.cu", 0, None, None),
        "nvrtcCreateProgram",
    )
    try:
        check(nvrtc.nvrtcCompileProgram(program, len(flags), array), "nvrtcCompileProgram")
        size = ctypes.c_size_t()
        check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        cubin = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


class Module:
    """A loaded module; its kernels are extern "C". Stays loaded until the process ends."""

    def __init__(self, source, include_dirs=()):
        import torch

        torch.zeros(1, device="cuda")
        major, minor = torch.cuda.get_device_capability()
        self.image = compile_cubin(source, f"sm_{major}{minor}", include_dirs=include_dirs)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        self._check(self.driver.cuModuleLoadData(ctypes.byref(self.module), self.image), "cuModuleLoadData")

    def _check(self, status, what):
        if status:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")

    def function(self, name, dynamic_smem_bytes=0):
        """A callable kernel: kernel(grid, block, arguments, stream=None); arguments are ctypes values."""
        handle = ctypes.c_void_p()
        self._check(self.driver.cuModuleGetFunction(ctypes.byref(handle), self.module, name.encode()), name)
        if dynamic_smem_bytes > 48 * 1024:
            status = self.driver.cuFuncSetAttribute(handle, MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_smem_bytes)
            self._check(status, f"cuFuncSetAttribute of {name}")

        def launch(grid, block, arguments, stream=None):
            import torch

            stream = torch.cuda.current_stream() if stream is None else stream
            pointers = (ctypes.c_void_p * max(1, len(arguments)))(*[ctypes.addressof(value) for value in arguments])
            status = self.driver.cuLaunchKernel(
                handle,
                ctypes.c_uint(grid),
                ctypes.c_uint(1),
                ctypes.c_uint(1),
                ctypes.c_uint(block),
                ctypes.c_uint(1),
                ctypes.c_uint(1),
                ctypes.c_uint(dynamic_smem_bytes),
                ctypes.c_void_p(stream.cuda_stream or None),
                pointers,
                None,
            )
            self._check(status, name)

        return launch


def address(tensor):
    """A tensor's address as a kernel argument."""
    return ctypes.c_uint64(tensor.data_ptr())
