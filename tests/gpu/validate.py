"""CSAJIT_VALIDATE=1 on a GPU: every defect of the segment arrays and every bad pointer is refused by name, with nothing
launched, and good calls give the same bits as without it.

Usage: validate.py [--defects-only]. The second form is small enough for a memory checker.
"""

import argparse
import ctypes
import sys
import threading
import time

import torch

import csajit_abi as abi
from csajit_ctypes import Service, Spec
from driver import Driver
from harness import Call, Tally, differing_bits, refusal

LENS = [515, 1024, 0, 129]
SPECS = (Spec(4, 128, 2), Spec(128, 64, 1), Spec(4, 65, 2, "fp32"), Spec(2, 64, 1, ape=False))
MANY = 1500  # segments: more than the threads of the check kernel


class Moved:
    """A tensor's shape and strides at another address, for csajit_ctypes; what lies there is nobody's tensor."""

    def __init__(self, tensor, address):
        self.tensor, self.address = tensor, address

    def __getattr__(self, name):
        return getattr(self.tensor, name)

    def data_ptr(self):
        return self.address


def check_refused(tally, call, text, words, status=abi.E_INVALID_ARGUMENT):
    """Forward and backward are refused with words in the message, and no output is touched."""
    call.spoil()
    torch.cuda.synchronize()
    for name, action in (("forward", call.forward), ("backward", call.backward)):
        got, message = refusal(action)
        missing = [word for word in words if word not in message]
        tally.check(got == status and not missing, f"{call.spec}: {text}, {name}", f"{got} {message!r}")
    torch.cuda.synchronize()
    untouched = all(bool(torch.isnan(tensor).all()) for tensor in call.outputs().values())
    tally.check(untouched, f"{call.spec}: {text}: no output was written")


def check_offsets(tally, service, spec):
    """One bad entry at the first, a middle and the last place of few and of many segments."""
    r = spec.ratio
    for lens in (LENS, [r + 1] * MANY):
        call = Call(service, spec, lens)
        count, last = len(lens), len(lens)
        cu, comp = call.cu.clone(), call.comp.clone()
        middle = count // 2

        def spoiled(array, index, value):
            getattr(call, array)[index] = value
            return f"{array}[{index}] = {value} of {count} segments"

        def restore():
            call.cu.copy_(cu)
            call.comp.copy_(comp)

        cases = [
            ("cu", 0, -1, ["cu_seqlens[0]", "-1", "negative"]),
            ("cu", middle, -5, [f"cu_seqlens[{middle}]", "-5 is less than"]),
            ("cu", last, call.num_tokens + 1, [f"cu_seqlens[{last}]", "past the", "num_tokens"]),
            ("cu", middle, 2**31 - 1, [f"cu_seqlens[{middle}]", "past the"]),
            ("comp", 0, -1, ["cu_seqlens_comp[0]", "-1", "negative"]),
            ("comp", 1, int(comp[1]) + 1, ["cu_seqlens_comp[1]", f"should be {int(comp[1])}"]),
            ("comp", last, int(comp[last]) - 1, [f"cu_seqlens_comp[{last}]", f"should be {int(comp[last])}"]),
        ]
        for array, index, value, words in cases:
            check_refused(tally, call, spoiled(array, index, value), words)
            restore()
        # Of two defects the first in the arrays is named.
        call.cu[last] = call.num_tokens + 9
        call.cu[1] = -3
        check_refused(tally, call, "two defects", ["cu_seqlens[1]", "-3"])
        restore()


def check_good(tally, service, plain, spec):
    for lens in (LENS, [spec.ratio + 1] * MANY):
        call = Call(service, spec, lens)
        golden = call.direct(plain)
        difference = differing_bits(golden, call.direct())
        tally.check(not difference, f"{spec}: {len(lens)} good segments give the bits of a plain call", str(difference))


def check_batched(tally, service, spec):
    """A segment longer than the batched layout has tokens for."""
    call = Call(service, spec, [256, 256])
    wide = (2, 256, spec.columns)
    for name in ("kv", "score", "grad_kv", "grad_score"):
        setattr(call, name, getattr(call, name).view(wide))
    status, message = refusal(call.forward)
    tally.check(status == 0, f"{spec}: a good batched call", f"{status} {message}")
    call.cu[1] = 257
    check_refused(tally, call, "a segment of 257 tokens in 256", ["cu_seqlens[1]", "257", "256 tokens"])


def check_pointers(tally, service, spec):
    """Host memory, freed memory and a tensor that ends too early, for each argument in turn."""
    driver = Driver()
    call = Call(service, spec, LENS)
    names = ["kv", "score", "out", "grad_out", "grad_kv", "grad_score", "cu", "comp"]
    names += ["ape", "grad_ape", "workspace"] if spec.ape else []
    forward_only = {"out"}
    both = {"kv", "score", "ape", "cu", "comp"}
    freed = ctypes.c_uint64()
    size = 64 << 20
    driver.check(driver.lib.cuMemAlloc_v2(ctypes.byref(freed), ctypes.c_size_t(size)), "cuMemAlloc")
    driver.check(driver.lib.cuMemFree_v2(freed), "cuMemFree")
    short = ctypes.c_uint64()
    driver.check(driver.lib.cuMemAlloc_v2(ctypes.byref(short), ctypes.c_size_t(2 << 20)), "cuMemAlloc")
    for name in names:
        tensor = getattr(call, name)
        label = {"cu": "cu_seqlens", "comp": "cu_seqlens_comp"}.get(name, name)
        span = tensor.numel() * tensor.element_size()
        host = torch.zeros(span + 256, dtype=torch.uint8)
        host_address = (host.data_ptr() + 255) & ~255
        places = [("pageable host memory", host_address, "first byte"), ("freed memory", freed.value, "first byte")]
        # Its first 256 bytes exist, its last do not (nothing lies behind a 2 MiB block of its own for sure, so the
        # next block is asked for: where there is one, the driver is right to accept).
        end = short.value + (2 << 20)
        kind = ctypes.c_uint32()
        after = driver.lib.cuPointerGetAttribute(ctypes.byref(kind), 2, ctypes.c_uint64(end + span - 257))
        if after != 0 and span > 256:
            places.append(("memory that ends too early", end - 256, "last byte"))
        for what, address, word in places:
            setattr(call, name, Moved(tensor, address))
            actions = [("forward", call.forward)] if name in forward_only or name in both else []
            actions += [("backward", call.backward)] if name not in forward_only else []
            for pass_name, action in actions:
                status, message = refusal(action)
                good = status == abi.E_INVALID_ARGUMENT and f"{label}: its {word}" in message
                tally.check(good, f"{spec}: {label} in {what}, {pass_name}", f"{status} {message!r}")
            setattr(call, name, tensor)
    driver.check(driver.lib.cuMemFree_v2(short), "cuMemFree")
    status, message = refusal(lambda: (call.forward(), call.backward()))
    tally.check(status == 0, f"{spec}: and then a good call again", f"{status} {message}")
    torch.cuda.synchronize()


def check_reachable_host_memory(tally, service, plain, spec):
    """Pinned memory that is mapped at its own address is legal, and read through."""
    call = Call(service, spec, LENS)
    golden = call.direct(plain)
    call.cu, call.comp = call.cu.cpu().pin_memory(), call.comp.cpu().pin_memory()
    status, message = refusal(call.forward)
    torch.cuda.synchronize()
    same = status == 0 and torch.equal(call.out, golden["out"])
    tally.check(same, f"{spec}: pinned host memory is accepted", f"{status} {message}")


def check_capture(tally, service, spec):
    call = Call(service, spec, LENS)
    source = torch.arange(1000, dtype=torch.float32, device="cuda")
    target = torch.zeros_like(source)
    torch.cuda.synchronize()
    for mode in ("global", "thread_local", "relaxed"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            torch.mul(source, 3.0, out=target)
            results = [refusal(call.forward), refusal(call.backward)]
        target.zero_()
        graph.replay()
        torch.cuda.synchronize()
        good = all(status == abi.E_UNSUPPORTED and "CSAJIT_VALIDATE" in message for status, message in results)
        tally.check(good, f"{spec}: refused in a {mode} capture", str(results))
        tally.check(torch.equal(target, source * 3.0), f"{spec}: the {mode} capture stays valid")


def check_beside_capture(tally, service, plain, spec):
    """Another thread captures in global mode while validated calls run here."""
    call = Call(service, spec, LENS)
    golden = call.direct(plain)
    stream = torch.cuda.Stream()
    source = torch.arange(1000, dtype=torch.float32, device="cuda")
    target = torch.zeros_like(source)
    begun, finish, problems = threading.Event(), threading.Event(), []

    def capture():
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                torch.mul(source, 5.0, out=target)
                begun.set()
                finish.wait(30)
            graph.replay()
            torch.cuda.synchronize()
        except Exception as error:  # a thread's own exception would be lost
            problems.append(repr(error))
            begun.set()

    torch.cuda.synchronize()
    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait(30)
    with torch.cuda.stream(stream):
        status = [refusal(call.forward), refusal(call.backward)]
    finish.set()
    thread.join()
    stream.synchronize()
    tally.check(not problems, f"{spec}: the other thread's capture survives", "; ".join(problems))
    tally.check(torch.equal(target, source * 5.0), f"{spec}: and its graph runs")
    tally.check(all(code == 0 for code, _ in status), f"{spec}: validated calls beside a capture", str(status))
    difference = differing_bits(golden, call.outputs())
    tally.check(not difference, f"{spec}: with the bits of a plain call", str(difference))


def report_cost(service, plain, spec):
    call = Call(service, spec, LENS)
    for name, one in (("plain", plain), ("validated", service)):
        for timed in (False, True):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(200 if timed else 5):
                call.forward(one)
                torch.cuda.synchronize()
            took = (time.perf_counter() - begin) / 200 * 1e6
        print(f"     {spec}: forward, {name}, launch and wait: {took:.1f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--defects-only", action="store_true")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip validate: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    with Service(abi.SERVICE_VALIDATE) as service, Service() as plain:
        for spec in SPECS:
            check_offsets(tally, service, spec)
            check_good(tally, service, plain, spec)
        check_batched(tally, service, SPECS[0])
        if not arguments.defects_only:
            for spec in SPECS:
                check_pointers(tally, service, spec)
            for spec in SPECS[:2]:
                check_reachable_host_memory(tally, service, plain, spec)
                check_capture(tally, service, spec)
                check_beside_capture(tally, service, plain, spec)
            report_cost(service, plain, SPECS[0])
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
