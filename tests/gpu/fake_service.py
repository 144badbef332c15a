"""A stand-in for csajit that answers by the reference itself, for tests of the test code without a GPU."""

from reference import Pack, reference


class FakeService:
    """A faultless run is bit-equal to fp32-eager; fault(outputs by name) spoils it after each call.

    The pack is read off the arguments, as the library does it.
    """

    def __init__(self, fault=None):
        self.fault = fault or (lambda _: None)
        self.call = 0

    def workspace_size(self, spec, rows):
        return 64 if spec.ape and rows else 0

    def _run(self, spec, kv, score, ape, cu, comp, rows, grad_out):
        cu, comp = cu.tolist(), comp.tolist()
        batched = kv.size(1) if kv.dim() == 3 else 0
        lens = [after - before for before, after in zip(cu, cu[1:])]
        pack = Pack(lens, spec.ratio, 0, cu[0], comp[0], rows - comp[-1], batched)
        if not batched:
            pack.padding = kv.size(0) - cu[-1]
        assert pack.comp == comp, (pack.comp, comp)
        shape = (pack.num_tokens, spec.columns)
        return reference("eager", spec, pack, kv.reshape(shape), score.reshape(shape), ape, grad_out)

    def forward(self, spec, kv, score, ape, cu, comp, out):
        out.copy_(self._run(spec, kv, score, ape, cu, comp, out.size(0), None).out)
        self.call += 1
        self.fault({"out": out, "call": self.call})

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
        workspace,
        accumulate_grad_ape=False,
    ):
        result = self._run(spec, kv, score, ape, cu, comp, grad_out.size(0), grad_out)
        for view, value in ((grad_kv, result.grad_kv), (grad_score, result.grad_score)):
            if view is not None:
                view.copy_(value.view(view.shape))
        if grad_ape is not None:
            grad_ape.copy_(grad_ape + result.grad_ape if accumulate_grad_ape else result.grad_ape)
        outputs = {"grad_kv": grad_kv, "grad_score": grad_score, "grad_ape": grad_ape}
        self.fault({**outputs, "workspace": workspace, "call": self.call})
