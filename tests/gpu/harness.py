"""What the graph tests share: one call's static buffers, random data for them, and a tally of checks."""

import torch

from compare import bits
from csajit_ctypes import CsajitError
from reference import TORCH_DTYPES


class Call:
    """Packed, contiguous buffers of one forward and backward, at fixed addresses as a captured graph needs them."""

    def __init__(self, service, spec, lens, num_tokens=None, num_rows=None, seed=1, fill=True, device="cuda"):
        self.service, self.spec, self.device = service, spec, device
        self.num_tokens = sum(lens) if num_tokens is None else num_tokens
        self.num_rows = sum(length // spec.ratio for length in lens) if num_rows is None else num_rows
        wide = (self.num_tokens, spec.columns)
        narrow = (self.num_rows, spec.head_dim)
        kv, score, out = TORCH_DTYPES[spec.kv], TORCH_DTYPES[spec.score], TORCH_DTYPES[spec.out]
        self.kv = torch.empty(wide, dtype=kv, device=self.device)
        self.score = torch.empty(wide, dtype=score, device=self.device)
        self.ape = torch.empty((spec.ratio, spec.columns), device=self.device) if spec.ape else None
        self.grad_out = torch.empty(narrow, dtype=out, device=self.device)
        self.cu = torch.empty(len(lens) + 1, dtype=torch.int32, device=self.device)
        self.comp = torch.empty_like(self.cu)
        self.out = torch.empty(narrow, dtype=out, device=self.device)
        self.grad_kv = torch.empty(wide, dtype=kv, device=self.device)
        self.grad_score = torch.empty(wide, dtype=score, device=self.device)
        self.grad_ape = torch.empty_like(self.ape) if spec.ape else None
        size = service.workspace_size(spec, self.num_rows)
        self.workspace = torch.empty(size, dtype=torch.uint8, device=self.device) if size else None
        self.set_lens(lens)
        if fill:
            self.set_data(seed)

    def set_lens(self, lens):
        """Other segment tables in the same buffers."""
        cu, comp = [0], [0]
        for length in lens:
            cu.append(cu[-1] + length)
            comp.append(comp[-1] + length // self.spec.ratio)
        self.cu.copy_(torch.tensor(cu, dtype=torch.int32))
        self.comp.copy_(torch.tensor(comp, dtype=torch.int32))

    def set_data(self, seed):
        generator = torch.Generator(device=self.device)
        generator.manual_seed(seed)
        for tensor, sigma in ((self.kv, 1.0), (self.score, 1.5), (self.ape, 0.25), (self.grad_out, 1.0)):
            if tensor is not None:
                tensor.copy_(torch.randn(tensor.shape, device=self.device, generator=generator) * sigma)

    def outputs(self):
        named = {"out": self.out, "grad_kv": self.grad_kv, "grad_score": self.grad_score, "grad_ape": self.grad_ape}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def spoil(self):
        """NaN into everything that a call must write."""
        for tensor in self.outputs().values():
            tensor.fill_(float("nan"))
        if self.workspace is not None:
            self.workspace.fill_(0xFF)

    def forward(self, service=None):
        (service or self.service).forward(self.spec, self.kv, self.score, self.ape, self.cu, self.comp, self.out)

    def backward(self, service=None):
        (service or self.service).backward(
            self.spec,
            self.kv,
            self.score,
            self.ape,
            self.cu,
            self.comp,
            self.grad_out,
            self.grad_kv,
            self.grad_score,
            self.grad_ape,
            self.workspace,
        )

    def direct(self, service=None):
        """Runs both outside any graph and returns copies of the outputs."""
        self.spoil()
        self.forward(service)
        self.backward(service)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return {name: tensor.clone() for name, tensor in self.outputs().items()}

    def replay(self, graph):
        """Replays a graph of this call and returns copies of the outputs."""
        self.spoil()
        graph.replay()
        torch.cuda.synchronize()
        return {name: tensor.clone() for name, tensor in self.outputs().items()}


def differing_bits(first, second):
    """{name: count} of elements with other bits; empty when all are equal."""
    counts = {name: int((bits(tensor) != bits(second[name])).sum()) for name, tensor in first.items()}
    return {name: count for name, count in counts.items() if count}


def written(outputs):
    """{name: count} of elements that are still NaN; inputs without NaN give outputs without NaN."""
    counts = {name: int(torch.isnan(tensor).sum()) for name, tensor in outputs.items()}
    return {name: count for name, count in counts.items() if count}


def refusal(action):
    """(status, message) of an action that must fail; (0, "") if it did not."""
    try:
        action()
    except CsajitError as error:
        return error.status, error.message
    return 0, ""


class Tally:
    """Counts checks and prints a line for each."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, good, text, detail=""):
        if good:
            self.passed += 1
            print(f"ok   {text}", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {text}{': ' if detail else ''}{detail}", flush=True)
        return good

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0
