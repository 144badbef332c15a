"""Contexts, streams and memory by the CUDA driver itself, for tests that need more than PyTorch's one context."""

import ctypes


class Driver:
    """The functions used here, each checked. Pointers and handles are ctypes values."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def check(self, status, what):
        if status:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{what}: {text.value.decode() if text.value else status}")

    def current(self):
        context = ctypes.c_void_p()
        self.check(self.lib.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
        return context

    def set_current(self, context):
        self.check(self.lib.cuCtxSetCurrent(context), "cuCtxSetCurrent")


class Context:
    """A context of its own on device 0, with one stream. Inside `with` it is current; memory outlives the block."""

    def __init__(self, driver, ordinal=0):
        self.driver, self.context, self.stream = driver, ctypes.c_void_p(), ctypes.c_void_p()
        before = driver.current()
        device = ctypes.c_int()
        driver.check(driver.lib.cuDeviceGet(ctypes.byref(device), ctypes.c_int(ordinal)), "cuDeviceGet")
        status = driver.lib.cuCtxCreate_v2(ctypes.byref(self.context), ctypes.c_uint(0), device)
        driver.check(status, "cuCtxCreate")
        driver.check(driver.lib.cuStreamCreate(ctypes.byref(self.stream), ctypes.c_uint(1)), "cuStreamCreate")
        driver.set_current(before)

    def __enter__(self):
        self.before = self.driver.current()
        self.driver.set_current(self.context)
        return self

    def __exit__(self, *_):
        self.driver.set_current(self.before)

    def synchronize(self):
        self.driver.check(self.driver.lib.cuStreamSynchronize(self.stream), "cuStreamSynchronize")

    def destroy(self):
        """Frees everything of the context."""
        self.driver.check(self.driver.lib.cuCtxDestroy_v2(self.context), "cuCtxDestroy")


class ContextTensor:
    """Memory of a context that looks to csajit_ctypes like the CPU tensor whose shape and bytes it takes."""

    def __init__(self, context, source):
        self.context, self.source = context, source.contiguous().cpu()
        self.bytes = max(1, self.source.numel() * self.source.element_size())
        self.pointer = ctypes.c_uint64()
        driver = context.driver
        driver.check(driver.lib.cuMemAlloc_v2(ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes)), "cuMemAlloc")
        self.upload()

    def upload(self):
        driver, size = self.context.driver, self.source.numel() * self.source.element_size()
        if size:
            source = ctypes.c_void_p(self.source.data_ptr())
            status = driver.lib.cuMemcpyHtoD_v2(self.pointer, source, ctypes.c_size_t(size))
            driver.check(status, "cuMemcpyHtoD")
            # The copy may return before its last part has arrived, and the context's stream waits for no other.
            driver.check(driver.lib.cuCtxSynchronize(), "cuCtxSynchronize")

    def download(self):
        """A CPU tensor of what it holds now."""
        result = self.source.clone()
        size = result.numel() * result.element_size()
        if size:
            driver = self.context.driver
            status = driver.lib.cuMemcpyDtoH_v2(ctypes.c_void_p(result.data_ptr()), self.pointer, ctypes.c_size_t(size))
            driver.check(status, "cuMemcpyDtoH")
        return result

    def dim(self):
        return self.source.dim()

    def size(self, index):
        return self.source.size(index)

    def stride(self, index):
        return self.source.stride(index)

    def numel(self):
        return self.source.numel()

    def data_ptr(self):
        return self.pointer.value
