"""Large and many: offsets past 2^31, rows past every grid, 20 000 segments, a million tokens, 90 % padding.

Usage: large.py [--filter TEXT]. Results are judged per group of whole segments, since PyTorch's own index wraps above
2^31 elements. Needs about 50 GiB of GPU memory; a check that does not fit is skipped, and said.
"""

import argparse
import sys
import time

import torch

import compare as contract
from csajit_ctypes import Service, Spec
from harness import Call, Tally
from occupy import graph_of, replay_ms
from reference import TORCH_DTYPES, Pack, reference

NEEDED_BYTES = 60 << 30
CHUNK = 1 << 27


def fill_normal(tensor, sigma, seed):
    """N(0, sigma^2) in chunks: a whole fp32 copy of a large tensor would double the memory."""
    generator = torch.Generator(device=tensor.device)
    generator.manual_seed(seed)
    rows = max(1, CHUNK // max(1, tensor.size(1)))
    for part in tensor.split(rows):
        part.copy_(torch.randn(part.shape, device=tensor.device, generator=generator) * sigma)


def fill(call, seed=1):
    for index, (tensor, sigma) in enumerate(
        ((call.kv, 1.0), (call.score, 1.5), (call.ape, 0.25), (call.grad_out, 1.0))
    ):
        if tensor is not None and tensor.numel():
            fill_normal(tensor, sigma, seed + index)


def groups_of(lens, tokens):
    """[(first segment, count)] of whole segments of about so many tokens together."""
    result, first, total = [], 0, 0
    for index, length in enumerate(lens):
        total += length
        if total >= tokens or index + 1 == len(lens):
            result.append((first, index + 1 - first))
            first, total = index + 1, 0
    return result


def judge_groups(call, lens, misses, group_tokens):
    """out, grad_kv and grad_score of every segment against fp32-eager; returns counts and eager's grad_ape."""
    spec, token, row = call.spec, 0, 0
    differing = {"out": 0, "grad_kv": 0, "grad_score": 0}
    counts, worst, ape = dict(differing), 0.0, None
    for first, count in groups_of(lens, group_tokens):
        part = lens[first : first + count]
        pack = Pack(part, spec.ratio)
        tokens, rows = slice(token, token + pack.num_tokens), slice(row, row + pack.num_rows)
        token, row = tokens.stop, rows.stop
        inputs = (call.kv[tokens], call.score[tokens], call.ape, call.grad_out[rows])
        eager = reference("eager", spec, pack, *inputs)
        for name in differing:
            ours = getattr(call, name)[rows if name == "out" else tokens]
            gap = contract.compare(ours, getattr(eager, name))
            differing[name] += gap.differing
            counts[name] += gap.count
            worst = max(worst, gap.max_abs)
            if gap.class_mismatches:
                misses.append(f"{name}: {gap.class_mismatches} elements not finite in one only")
        if eager.grad_ape is not None:
            ape = eager.grad_ape.double() if ape is None else ape + eager.grad_ape.double()
    if worst > contract.MAX_ABS_TO_EAGER:
        misses.append(f"max abs to fp32-eager {worst:.3g}")
    for name, count in differing.items():
        exact = spec.is_short and name != "out"
        share = 0.0 if exact else contract.DIFFERING_SHARE[getattr(call, name).dtype]
        if share is not None and count > contract.allowed_differing(counts[name], share):
            misses.append(f"{name}: {count} of {counts[name]} elements differ from fp32-eager")
    # The rest are tokens of no segment: exact zeros.
    for name in ("grad_kv", "grad_score"):
        for rest in getattr(call, name)[token:].split(max(1, CHUNK // max(1, spec.columns))):
            wrong = int((contract.bits(rest) != 0).sum())
            if wrong:
                misses.append(f"{name}: {wrong} elements of the padding are not +0")
    return differing, ape


def check_call(service, tally, text, spec, lens, padding=0, extra_rows=0, group_tokens=1 << 17):
    start = time.monotonic()
    rows = sum(length // spec.ratio for length in lens) + extra_rows
    call = Call(service, spec, lens, num_tokens=sum(lens) + padding, num_rows=rows, fill=False)
    fill(call)
    call.spoil()
    call.forward()
    call.backward()
    torch.cuda.synchronize()
    misses = []
    differing, ape = judge_groups(call, lens, misses, group_tokens)
    gap = 0.0
    if ape is not None:
        # fp32 sums of eager over a group, added in fp64 over groups: their error grows with the rows.
        gap = float((call.grad_ape.double() - ape).abs().max())
        limit = contract.MAX_ABS_APE_TO_EAGER * max(1.0, (rows / 1e5) ** 0.5)
        if not gap <= limit:
            misses.append(f"grad_ape: max abs to fp32-eager {gap:.3g} > {limit:.3g}")
    elements = call.num_tokens * spec.columns
    shape = f"T={call.num_tokens} R={rows} T*W=2^31{elements - 2**31:+d}" if elements > 2**30 else f"R={rows}"
    tally.check(not misses, f"{text}: {spec} {shape}", "; ".join(misses[:6]))
    figures = f"differing {differing}, grad_ape max {gap:.2g}, {torch.cuda.max_memory_allocated() >> 30} GiB"
    print(f"     {figures}, {time.monotonic() - start:.1f} s", flush=True)
    del call
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def lens_of(tokens, length, ratio):
    """Segments of one length but for the last, together exactly `tokens`; odd tails among them."""
    lens = [length + (index % 3) - 1 for index in range(tokens // length)]
    lens.append(tokens - sum(lens))
    return [length for length in lens if length > 0]


def offset_checks(service, tally):
    """T*W just below and above 2^31 elements; out above it; far apart rows of few tokens."""
    for text, tokens in (("just below 2^31", 2**21 - 1), ("above 2^31", 2**21 + 4099)):
        check_call(service, tally, text, Spec(4, 512, 2), lens_of(tokens, 1 << 17, 4))
    check_call(service, tally, "above 2^31", Spec(128, 512, 1), lens_of(2**22 + 4099, 1 << 17, 128))
    check_call(service, tally, "fp32, above 2^31 bytes", Spec(4, 128, 2, "fp32"), lens_of(2**21 + 4099, 1 << 17, 4))
    spec = Spec(1, 512, 1, ape=False)
    check_call(service, tally, "out above 2^31", spec, lens_of(2**22 + 513, 1 << 18, 1), group_tokens=1 << 18)


def check_far_rows(service, tally, spec, lens, row_stride, batched):
    """Few tokens whose offsets pass 2^31 elements: kv, score and their gradients in one buffer of one row stride."""
    tokens, columns = sum(lens), spec.columns
    pack = Pack(lens, spec.ratio, batched_tokens=max(lens) if batched else 0)
    dtype = TORCH_DTYPES[spec.kv]
    near = Call(service, spec, lens, num_tokens=pack.num_tokens)
    if batched:
        tokens = pack.num_tokens
    raw = torch.zeros(tokens * row_stride, dtype=dtype, device="cuda")

    def view(index):
        offset = index * columns
        if not batched:
            return raw.as_strided((tokens, columns), (row_stride, 1), offset)
        size = (len(lens), pack.batched_tokens, columns)
        return raw.as_strided(size, (pack.batched_tokens * row_stride, row_stride, 1), offset)

    kv, score, grad_kv, grad_score = (view(index) for index in range(4))
    shape = (len(lens), pack.batched_tokens, columns) if batched else (tokens, columns)
    near_views = [tensor.view(shape) for tensor in (near.kv, near.score, near.grad_kv, near.grad_score)]
    near.kv, near.score, near.grad_kv, near.grad_score = near_views
    golden = near.direct()
    kv.copy_(near.kv)
    score.copy_(near.score)
    near.kv, near.score, near.grad_kv, near.grad_score = kv, score, grad_kv, grad_score
    far = near.direct()
    bad = {name: int((contract.bits(far[name]) != contract.bits(golden[name])).sum()) for name in golden}
    # What lies between the columns stays zero.
    stray = int((raw.view(tokens, row_stride)[:, 4 * columns :] != 0).sum())
    text = f"{spec} rows {row_stride} elements apart{', batched' if batched else ''}: {raw.numel() / 2**31:.2f} x 2^31"
    tally.check(not any(bad.values()) and not stray, text, f"{bad}, stray writes {stray}")


def grid_checks(service, tally):
    """Rows past 65 535 and past what one grid may hold (2^20 CTAs of several rows): CTAs go on to further items."""
    check_call(service, tally, "R above 65 535", Spec(1, 64, 1, ape=False), [70_001, 3], group_tokens=1 << 24)
    check_call(
        service, tally, "R above the grid, short", Spec(1, 2, 1, ape=False), [2**24 + 5], group_tokens=1 << 24
    )
    spec = Spec(1, 2, 2, ape=True)
    check_call(service, tally, "zero slots above the grid", spec, [2**20 + 1], padding=2**26, group_tokens=1 << 24)
    lens = [17 * (1 << 20)] * 16 + [17 * 1000 + 5]
    spec = Spec(17, 2, 1, ape=True)
    check_call(service, tally, "R above the grid, long", spec, lens, group_tokens=1 << 26)


def pair_ms(call, repeats=6):
    """Milliseconds of a forward and a backward, from graph replays."""
    call.direct()
    return tuple(replay_ms(graph_of(action, repeats), repeats) for action in (call.forward, call.backward))


def check_many_segments(service, tally, spec):
    """20 000 segments of 1 to 40 tokens take at most 1.3 times one segment of as many tokens."""
    lens = [1 + (7 * index) % 40 for index in range(20_000)]
    tokens = sum(lens)
    many = pair_ms(Call(service, spec, lens))
    one = pair_ms(Call(service, spec, [tokens]))
    for name, slow, fast in zip(("forward", "backward"), many, one):
        text = f"{spec}: {name} of 20 000 segments takes {slow / fast:.3f} of one segment's time"
        tally.check(slow <= 1.3 * fast, text, f"{slow:.4f} ms, one segment {fast:.4f} ms")
        print(f"     {slow:.4f} ms, {fast:.4f} ms")


def measure_padding(service, tally, spec, tokens):
    """90 % padding: right (judged above); its time beside a write stream of its bytes, as a measurement."""
    plain = Call(service, spec, [tokens])
    padded = Call(service, spec, [tokens], num_tokens=10 * tokens)
    _, alone = pair_ms(plain)
    _, whole = pair_ms(padded)
    pad = padded.grad_kv[tokens:]

    def write():
        pad.zero_()
        padded.grad_score[tokens:].zero_()

    write()
    stream = replay_ms(graph_of(write, 6), 6)
    limit = alone + stream / 0.85
    word = "within" if whole <= limit else "PAST"
    print(
        f"     90 % padding, {spec} T={10 * tokens}: backward {whole:.4f} ms, without padding {alone:.4f} ms, "
        f"write stream {stream:.4f} ms: {word} the limit of {limit:.4f} ms",
        flush=True,
    )
    good = all(bool((contract.bits(grad[tokens:]) == 0).all()) for grad in (padded.grad_kv, padded.grad_score))
    tally.check(good, f"90 % padding, {spec}: the padding is exactly +0")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only groups whose name holds this text")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skip large: PyTorch sees no GPU here")
        return 0
    torch.zeros(1, device="cuda")
    tally = Tally()
    free, _ = torch.cuda.mem_get_info()
    fits = free > NEEDED_BYTES
    with Service() as service:

        def million():
            check_call(service, tally, "a million tokens", Spec(4, 128, 2), [1_000_003], group_tokens=1 << 21)
            check_call(service, tally, "a million tokens", Spec(128, 128, 2), [1_000_003], group_tokens=1 << 21)
            check_call(service, tally, "90 % padding", Spec(4, 128, 2), [30_003], 270_000, 7, 1 << 21)

        def many():
            for spec in (Spec(4, 128, 2), Spec(4, 512, 2), Spec(8, 128, 1)):
                check_many_segments(service, tally, spec)

        def padding():
            measure_padding(service, tally, Spec(4, 512, 2), 1 << 15)
            measure_padding(service, tally, Spec(128, 512, 1), 1 << 15)

        def far():
            check_far_rows(service, tally, Spec(4, 128, 2), [2000, 1003, 9], 3 << 18, False)
            check_far_rows(service, tally, Spec(4, 128, 2), [1000, 501, 9], 3 << 18, True)
            check_far_rows(service, tally, Spec(128, 128, 1), [2000, 1003, 9], 3 << 18, False)

        groups = {
            "million": (million, False),
            "many": (many, False),
            "padding": (padding, False),
            "grid": (lambda: grid_checks(service, tally), True),
            "far": (far, True),
            "offsets": (lambda: offset_checks(service, tally), True),
        }
        for name, (action, is_large) in groups.items():
            if options.filter not in name:
                continue
            if is_large and not fits:
                print(f"skip {name}: {free >> 30} GiB of GPU memory are free, {NEEDED_BYTES >> 30} are needed")
                continue
            start = time.monotonic()
            action()
            print(f"     {name}: {time.monotonic() - start:.1f} s", flush=True)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
