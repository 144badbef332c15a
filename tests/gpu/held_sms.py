"""With 24 SMs held by another kernel: the same bits, and at most 1.35 times the time.

Usage: held_sms.py [--count N]. Times are medians of graph replays, forward and backward each.
"""

import argparse
import sys

import torch

from csajit_ctypes import Service, Spec
from harness import Call, Tally, differing_bits, written
from occupy import HeldSms, graph_of, replay_ms

MAX_RATIO = 1.35
REPEATS = 6
CASES = (
    (Spec(4, 512, 2), [16384, 8192, 1023, 16384, 8192]),
    (Spec(4, 128, 2), [65536, 32768, 1023, 65536]),
    (Spec(128, 512, 1), [16384, 8192, 1023, 16384, 8192]),
    (Spec(128, 128, 1), [65536, 32768, 1023, 65536]),
)


def check(service, spec, lens, held, tally):
    call = Call(service, spec, lens)
    golden = call.direct()
    graphs = {
        "forward": graph_of(call.forward, REPEATS),
        "backward": graph_of(call.backward, REPEATS),
    }
    alone = {name: replay_ms(graph, REPEATS) for name, graph in graphs.items()}
    call.spoil()
    torch.cuda.synchronize()
    with held:
        beside = {name: replay_ms(graph, REPEATS) for name, graph in graphs.items()}
        was_holding = held.is_holding
    torch.cuda.synchronize()
    where = f"{spec} beside {held.count} held SMs"
    tally.check(held.held_count == held.count and was_holding, f"{where}: they are held throughout", held.held_count)
    outputs = call.outputs()
    tally.check(not written(outputs) and not differing_bits(golden, outputs), f"{where}: the same bits")
    for name, time in beside.items():
        text = f"{where}: {name} takes {time / alone[name]:.3f} of its time"
        tally.check(time <= MAX_RATIO * alone[name], text, f"{time:.4f} ms, alone {alone[name]:.4f} ms")
        print(f"     {time:.4f} ms, alone {alone[name]:.4f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip held_sms: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    held = HeldSms(options.count)
    with Service() as service:
        for spec, lens in CASES:
            check(service, spec, lens, held, tally)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
