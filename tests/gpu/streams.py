"""Where a call runs: side streams, two host threads on two streams, two contexts, a second GPU. Same bits each time.

Usage: streams.py. What needs a second GPU is skipped, and said, where there is one.
"""

import sys
import threading

import torch

from csajit_ctypes import Service, Spec
from driver import Context, ContextTensor, Driver
from harness import Call, Tally, differing_bits

LENS = [1023, 2048, 0, 509]
SPECS = (Spec(4, 128, 2), Spec(128, 128, 1), Spec(4, 65, 2, "fp32"))
INPUTS = ("kv", "score", "ape", "cu", "comp", "grad_out")
OUTPUTS = ("out", "grad_kv", "grad_score", "grad_ape")


def check_side_stream(service, spec, tally):
    """A stream that waits: the call must run on it, after its own work and not on the default stream."""
    call = Call(service, spec, LENS)
    golden = call.direct()
    stream = torch.cuda.Stream()
    call.spoil()
    kv = call.kv.clone()
    call.kv.fill_(float("nan"))
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # Some milliseconds of work, then the right data: a call on another stream would read the NaN.
        torch.cuda._sleep(20_000_000)
        call.kv.copy_(kv)
        call.forward()
        call.backward()
    stream.synchronize()
    tally.check(not differing_bits(golden, call.outputs()), f"{spec}: a side stream gives the same bits in its order")


def check_threads(service, specs, tally, rounds=200):
    """Host threads, each with its stream, spec and buffers, at the same time."""
    calls = [Call(service, spec, LENS, seed=3 + index) for index, spec in enumerate(specs)]
    goldens = [call.direct() for call in calls]
    barrier, failures = threading.Barrier(len(calls)), []

    def work(index):
        call, wrong = calls[index], torch.zeros((), dtype=torch.int64, device="cuda")
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.default_stream())
            barrier.wait()
            with torch.cuda.stream(stream):
                for _ in range(rounds):
                    call.spoil()
                    call.forward()
                    call.backward()
                    for name, tensor in call.outputs().items():
                        wrong += (tensor != goldens[index][name]).sum()
            stream.synchronize()
            if int(wrong):
                failures.append(f"{call.spec}: {int(wrong)} elements differ")
        except Exception as error:  # a thread's own exception would be lost
            failures.append(f"{call.spec}: {error!r}")

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = ", ".join(str(spec) for spec in specs)
    tally.check(not failures, f"{len(calls)} threads on {len(calls)} streams ({names})", "; ".join(failures))


def run_in(service, context, call, golden, current):
    """{name: differing elements} of a call whose tensors and stream are another context's."""
    with context:
        given = {name: getattr(call, name) for name in INPUTS}
        inputs = {name: ContextTensor(context, tensor) for name, tensor in given.items() if tensor is not None}
        outputs = {name: ContextTensor(context, torch.full_like(golden[name], float("nan"))) for name in golden}
        workspace = None
        if call.workspace is not None:
            workspace = ContextTensor(context, torch.full_like(call.workspace, 0xFF))
    ape = inputs.get("ape")
    stream = context.stream.value
    before = context.driver.current()
    if current:
        context.driver.set_current(context.context)
    mine = context.driver.current().value
    common = (call.spec, inputs["kv"], inputs["score"], ape, inputs["cu"], inputs["comp"])
    service.forward(*common, outputs["out"], stream=stream)
    gradients = [outputs.get(name) for name in OUTPUTS[1:]]
    service.backward(*common, inputs["grad_out"], *gradients, workspace, stream=stream)
    kept = context.driver.current().value == mine
    context.driver.set_current(before)
    with context:
        context.synchronize()
        results = {name: tensor.download() for name, tensor in outputs.items()}
    return differing_bits({name: tensor.cpu() for name, tensor in golden.items()}, results), kept


def check_contexts(service, tally):
    """A second context beside PyTorch's, current or not; then a third one where the second was destroyed."""
    driver = Driver()
    for spec in SPECS:
        call = Call(service, spec, LENS)
        golden = call.direct()
        for round_name in ("second", "third"):
            context = Context(driver)
            for current in (True, False):
                difference, kept = run_in(service, context, call, golden, current)
                text = f"{spec}: a {round_name} context, {'current' if current else 'not current'}"
                tally.check(not difference, f"{text}: the same bits", str(difference))
                tally.check(kept, f"{text}: the current context is left as it was")
            again = call.direct()
            tally.check(not differing_bits(golden, again), f"{spec}: PyTorch's context goes on beside the {round_name}")
            context.destroy()
        again = call.direct()
        tally.check(not differing_bits(golden, again), f"{spec}: and after both are destroyed")


def check_second_device(service, tally):
    """Tensors and stream on device 1 while device 0 is current."""
    if torch.cuda.device_count() < 2:
        print("skip second device: one GPU here")
        return
    for spec in SPECS:
        call = Call(service, spec, LENS)
        golden = call.direct()
        for name in (*INPUTS, *OUTPUTS, "workspace"):
            tensor = getattr(call, name)
            setattr(call, name, None if tensor is None else tensor.to("cuda:1"))
        call.spoil()
        torch.cuda.synchronize("cuda:1")
        stream = torch.cuda.Stream("cuda:1")
        assert torch.cuda.current_device() == 0
        common = (spec, call.kv, call.score, call.ape, call.cu, call.comp)
        service.forward(*common, call.out, stream=stream)
        gradients = (call.grad_kv, call.grad_score, call.grad_ape)
        service.backward(*common, call.grad_out, *gradients, call.workspace, stream=stream)
        stream.synchronize()
        outputs = {name: tensor.to("cuda:0") for name, tensor in call.outputs().items()}
        tally.check(not differing_bits(golden, outputs), f"{spec}: device 1 while device 0 is current")
        tally.check(torch.cuda.current_device() == 0, f"{spec}: device 0 stays current")


def main():
    if not torch.cuda.is_available():
        print("skip streams: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    with Service() as service:
        for spec in SPECS:
            check_side_stream(service, spec, tally)
        check_threads(service, SPECS[:2], tally)
        check_threads(service, (SPECS[0], SPECS[0], *SPECS), tally)
        check_contexts(service, tally)
        check_second_device(service, tally)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
