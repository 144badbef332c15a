"""Stream capture: what an unprepared call is refused, that the capture survives it, and what a graph then replays.

Usage: capture.py. The cache is a fresh folder, so that prepare inside a capture compiles.
"""

import ctypes
import sys
import tempfile

import torch

import csajit_abi as abi
from csajit_ctypes import Service, Spec
from harness import Call, Tally, differing_bits, refusal, written

MODES = ("global", "thread_local", "relaxed")
LENS = [515, 1024, 0, 129]


def check_refusal(tally, spec, text, status, message):
    tally.check(status == abi.E_NOT_PREPARED_IN_CAPTURE, f"{text} is refused with 230", f"{status} {message}")
    pieces = (f"ratio={spec.ratio}", f"head_dim={spec.head_dim}", "csajit warmup", f"--head-dim {spec.head_dim}")
    missing = [piece for piece in pieces if piece not in message]
    tally.check(not missing, f"{text}: the message names the spec and the warmup command", f"{missing} in: {message}")


def check_refused_then_prepared(tally, service, mode, spec):
    """Refused twice, then prepared on the capturing thread, then captured; the graph replays with new data."""
    call = Call(service, spec, LENS)
    source = torch.arange(1000, dtype=torch.float32, device="cuda")
    before, after = torch.zeros_like(source), torch.zeros_like(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        torch.mul(source, 2.0, out=before)
        forward = refusal(call.forward)
        backward = refusal(call.backward)
        still_capturing = torch.cuda.is_current_stream_capturing()
        prepared = refusal(lambda: service.prepare(spec))
        if not prepared[0]:
            call.forward()
            call.backward()
        torch.add(source, 1.0, out=after)
    check_refusal(tally, spec, f"{mode}: first forward under capture", *forward)
    check_refusal(tally, spec, f"{mode}: first backward under capture", *backward)
    tally.check(still_capturing, f"{mode}: the stream still captures after the refusals")
    tally.check(prepared[0] == 0, f"{mode}: prepare on the capturing thread succeeds", str(prepared))
    replayed = call.replay(graph)
    good = torch.equal(before, source * 2.0) and torch.equal(after, source + 1.0)
    tally.check(good, f"{mode}: other work of that graph runs")
    tally.check(not written(replayed), f"{mode}: the graph wrote every output", str(written(replayed)))
    difference = differing_bits(replayed, call.direct())
    tally.check(not difference, f"{mode}: replay equals a direct call", str(difference))
    call.set_data(5)
    difference = differing_bits(call.replay(graph), call.direct())
    tally.check(not difference, f"{mode}: replay with new data equals a direct call", str(difference))


def check_refused_only(tally, service, mode, spec):
    """A capture that holds nothing of csajit after its refusal can end, instantiate and run."""
    call = Call(service, spec, LENS)
    source = torch.arange(1000, dtype=torch.float32, device="cuda")
    target = torch.zeros_like(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        torch.mul(source, 3.0, out=target)
        status, _ = refusal(call.backward)
    graph.replay()
    torch.cuda.synchronize()
    good = status == abi.E_NOT_PREPARED_IN_CAPTURE and torch.equal(target, source * 3.0)
    tally.check(good, f"{mode}: a capture that only met a refusal is usable", str(status))
    outputs = call.direct()
    tally.check(not written(outputs), f"{mode}: the refused spec runs outside the capture afterwards")


def check_warmed(tally, mode, spec, cache_dir):
    """A prepared spec is captured as it is; the graph outlives the service that filled it."""
    service = Service(cache_dir=cache_dir)
    service.prepare(spec)
    call = Call(service, spec, LENS)
    expected = call.direct()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        call.forward()
        call.backward()
    difference = differing_bits(call.replay(graph), expected)
    tally.check(not difference, f"{mode}: {spec} warmed, captured, replay equals direct", str(difference))
    call.set_data(9)
    expected = call.direct()
    service.close()
    difference = differing_bits(call.replay(graph), expected)
    tally.check(not difference, f"{mode}: {spec} replays new data after its service was destroyed", str(difference))


def check_require_prepared(tally, cache_dir, spec):
    """NOT_PREPARED outside a capture, NOT_PREPARED_IN_CAPTURE inside one."""
    with Service(flags=abi.SERVICE_REQUIRE_PREPARED, cache_dir=cache_dir) as service:
        call = Call(service, spec, LENS)
        status, message = refusal(call.forward)
        tally.check(status == abi.E_NOT_PREPARED, "require_prepared: an unprepared call is refused with 220", message)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        marker = torch.zeros(1, device="cuda")
        with torch.cuda.graph(graph):
            marker.add_(1.0)
            status, message = refusal(call.forward)
        tally.check(
            status == abi.E_NOT_PREPARED_IN_CAPTURE, "require_prepared: under capture the refusal is 230", message
        )
        service.prepare(spec)
        tally.check(not written(call.direct()), "require_prepared: a prepared spec runs")


def check_implicit_capture(tally, service, spec):
    """The legacy stream counts as capturing while a blocking stream captures."""
    call = Call(service, spec, LENS)
    torch.cuda.synchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    # By the driver itself: PyTorch's own streams do not synchronise with the legacy stream.
    statuses = [driver.cuStreamCreate(ctypes.byref(stream), ctypes.c_uint(0))]
    statuses.append(driver.cuStreamBeginCapture_v2(stream, ctypes.c_int(0)))
    status, message = refusal(
        lambda: service.forward(spec, call.kv, call.score, call.ape, call.cu, call.comp, call.out, stream=0)
    )
    statuses.append(driver.cuStreamEndCapture(stream, ctypes.byref(graph)))
    if graph:
        statuses.append(driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)))
        driver.cuGraphExecDestroy(executable)
        driver.cuGraphDestroy(graph)
    driver.cuStreamDestroy_v2(stream)
    text = "legacy stream beside a capturing blocking stream"
    tally.check(status == abi.E_NOT_PREPARED_IN_CAPTURE, f"{text}: refused with 230", f"{status} {message}")
    tally.check(not any(statuses) and len(statuses) == 4, f"{text}: that capture ends and instantiates", str(statuses))


def main():
    if not torch.cuda.is_available():
        print("skip capture: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    with tempfile.TemporaryDirectory() as cache_dir:
        with Service(cache_dir=cache_dir) as service:
            # Every check that needs an unprepared spec has one of its own: modules stay loaded in a context.
            for index, mode in enumerate(MODES):
                check_refused_then_prepared(tally, service, mode, Spec(4, 136 + 16 * index, 2))
                check_refused_only(tally, service, mode, Spec(4, 144 + 16 * index, 2))
            check_implicit_capture(tally, service, Spec(4, 200, 2))
        check_require_prepared(tally, cache_dir, Spec(4, 208, 2))
        for mode in MODES:
            for spec in (Spec(4, 128, 2), Spec(128, 128, 1)):
                check_warmed(tally, mode, spec, cache_dir)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
