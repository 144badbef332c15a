"""Holds the machine code of the production preset's kernels to what makes them fast; needs no GPU.

  machine_code.py --csajit PROGRAM --table FILE [--update] [--arch LIST]
  machine_code.py --self-test

For each architecture: global memory is touched by LDG and STG only; every load of a row stands in one stretch of code
without a branch and before the first use of one of them; instructions an element on a row's way (the IEEE division left
out) are no more than the table says. Prints the table with registers and the bytes of input in flight an SM.
nvdisasm: $CSAJIT_NVDISASM, else on PATH, else the check is skipped (exit 77).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import sass

SKIPPED = 77
ELEMENT_BYTES = 2  # the preset is bf16
SHARED_KB = {"sm_80": 164, "sm_90": 228, "sm_100": 228}
MAX_THREADS = re.compile(r"EIATTR_MAX_THREADS.*?\.word\s+0x([0-9a-f]+)", re.S)
NAME = re.compile(r"(forward|backward) (short|long) r(\d+) d\d+ c(\d) .*?(no-ape )?vec(\d)")


class Row:
    """What the name of a row kernel says of the code of one row in one thread; None for other kernels."""

    def __init__(self, match):
        role, family, ratio, coff, no_ape, vector = match.groups()
        window = int(ratio) * int(coff)
        entries = window if family == "short" else 8 if window <= 256 else 16
        with_ape = family == "short" and not no_ape  # long windows keep APE in registers
        self.loads = entries * (3 if with_ape else 2) + (role == "backward")
        self.elements = entries * int(vector)
        self.input_bytes = 2 * self.elements * ELEMENT_BYTES

    @staticmethod
    def of(name):
        match = NAME.match(name)
        return Row(match) if match else None


def judge(text, row):
    """Faults of one kernel as nvdisasm prints it, and its instructions an element (None without a row)."""
    kernel = sass.Kernel(text)
    faults = []
    generic = [i.opcode for i in kernel.instructions() if i.head in ("LD", "ST", "ATOM")]
    if generic:
        faults.append(f"{len(generic)} generic accesses ({generic[0]})")
    if row is None:
        return faults, None
    block, instructions = kernel.row()
    if block.count_loads() < row.loads:
        faults.append(f"{block.count_loads()} of a row's {row.loads} loads stand together; a branch parts the others")
    if block.late_loads():
        faults.append(f"{block.late_loads()} loads stand behind the first use of another one")
    return faults, instructions / row.elements


def resident_ctas(registers, threads, shared_bytes, arch):
    ctas = min(65536 // (threads * ((registers + 7) // 8 * 8)), 2048 // threads, 32)
    return min(ctas, (SHARED_KB[arch] << 10) // (shared_bytes + 1024))


def disassemble(nvdisasm, record):
    data = record.read_bytes()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(data[data.index(b"\x7fELF"):])
        cubin.flush()
        return subprocess.run([nvdisasm, cubin.name], capture_output=True, text=True, check=True).stdout


def measure(nvdisasm, record, kernel):
    text = disassemble(nvdisasm, record)
    row = Row.of(kernel["name"])
    faults, per_element = judge(text, row)
    in_flight = None
    if row is not None:
        threads = int(MAX_THREADS.search(text).group(1), 16)
        shared = kernel["static_smem_bytes"] + kernel["dynamic_smem_bytes"]
        ctas = resident_ctas(kernel["registers"], threads, shared, kernel["arch"])
        in_flight = ctas * threads * row.input_bytes / 1024
    return faults, per_element, in_flight


def read_table(path):
    """The NVRTC it was made with, and instructions an element by kernel and architecture."""
    lines = path.read_text().splitlines()
    rows = [line.rsplit(None, 2) for line in lines if line and not line.startswith("#")]
    version = next(line.split()[-1] for line in lines if line.startswith("# NVRTC"))
    return version, {(name.strip(), arch): float(value) for name, arch, value in rows}


def write_table(path, version, measured):
    lines = [
        "# Instructions an element on the way of a row. May rise only with a reason in tests/bench/NOTES.md.",
        "# Made by tests/checks/machine_code.py --update.",
        f"# NVRTC {version}",
    ]
    lines += [f"{name:52} {arch:7} {value:5.1f}" for (name, arch), value in measured.items()]
    path.write_text("\n".join(lines) + "\n")


def check(arguments, nvdisasm):
    with tempfile.TemporaryDirectory() as cache:
        command = [arguments.csajit, "warmup", "--preset", "production", "--arch", arguments.arch, "--cache-dir", cache, "--json"]
        kernels = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["kernels"]
        records = {path.stem: path for path in pathlib.Path(cache).rglob("*.record")}
        with concurrent.futures.ProcessPoolExecutor() as pool:
            jobs = [pool.submit(measure, nvdisasm, records[k["key"]], k) for k in kernels]
            results = [job.result() for job in jobs]
    version = kernels[0]["nvrtc"]
    measured, failed = {}, 0
    table_version, table = (version, {}) if arguments.update else read_table(arguments.table)
    print(f"{'kernel':52} {'arch':7} {'an element':>10} {'table':>6} {'registers':>9} {'KB in flight':>12}")
    for kernel, (faults, per_element, in_flight) in zip(kernels, results):
        key = (kernel["name"], kernel["arch"])
        known = table.get(key)
        if per_element is not None:
            measured[key] = per_element
            print(f"{key[0]:52} {key[1]:7} {per_element:10.1f} {known or 0:6.1f} {kernel['registers']:9} {in_flight:12.0f}")
            if version == table_version and not arguments.update:
                if known is None:
                    faults.append("not in the table")
                elif per_element > known + 0.06:
                    faults.append(f"{per_element:.1f} instructions an element, the table says {known:.1f}")
        for fault in faults:
            print(f"FAIL {key[0]} {key[1]}: {fault}")
        failed += bool(faults)
    if arguments.update:
        write_table(arguments.table, version, measured)
    elif version != table_version:
        print(f"the table is of NVRTC {table_version}, this is {version}: instructions were not compared")
    print(f"{len(kernels)} kernels, {failed} failed")
    return 1 if failed or not kernels else 0


# ---- Is a defect seen? ---------------------------------------------------------------------------------------

SOUND = """
\t.section\t.text.k,"ax",@progbits
.text.k:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDG.E.64.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.64.CONSTANT R6, desc[UR4][R2.64+0x400] ;
        /*0030*/                   LOP3.LUT R4, R4, R6, RZ, 0xf8, !PT ;
        /*0040*/                   FADD R8, R4, R5 ;
        /*0050*/                   FSETP.GT.AND P1, PT, R8, RZ, PT ;
        /*0060*/               @P1 BRA `(.L_x_2) ;
        /*0070*/                   FCHK P2, R8, R9 ;
        /*0080*/                   FADD R8, R8, R8 ;
        /*0090*/                   FADD R8, R8, R8 ;
        /*00a0*/                   FADD R8, R8, R8 ;
.L_x_2:
        /*00b0*/                   STG.E desc[UR4][R2.64], R8 ;
        /*00c0*/                   ISETP.GE.AND P0, PT, R0, R1, PT ;
        /*00d0*/              @!P0 BRA `(.L_x_1) ;
        /*00e0*/                   EXIT ;
"""


def self_test():
    row = Row.of("forward long r128 d512 c1 bf16 vec1")
    assert (row.loads, row.elements) == (16, 8)
    row = Row.of("backward short r4 d512 c2 bf16 vec4 contiguous")
    assert (row.loads, row.elements, row.input_bytes) == (25, 32, 128)
    assert Row.of("reduce_grad_ape short r4 d512 c2 bf16 vec1") is None
    row.loads, row.elements = 2, 1
    faults, per_element = judge(SOUND, row)
    assert not faults and per_element == 9, (faults, per_element)  # the division's way is not counted
    lines = SOUND.splitlines(keepends=True)
    second = next(i for i, line in enumerate(lines) if "R6, desc" in line)
    mutants = {
        "generic load": SOUND.replace("LDG.E.64.CONSTANT R6", "LD.E.64 R6"),
        "generic store": SOUND.replace("STG.E", "ST.E"),
        "late load": "".join(lines[:second] + lines[second + 1 : second + 3] + [lines[second]] + lines[second + 3 :]),
        "branch": "".join(lines[:second] + ["        /*001c*/          @P3 BRA `(.L_x_2) ;\n"] + lines[second:]),
    }
    for name, mutant in mutants.items():
        assert mutant != SOUND and judge(mutant, row)[0], f"{name}: not seen"
    longer = SOUND.replace("FSETP", "FADD R8, R8, R8 ;\n        /*0058*/ FSETP")
    assert judge(longer, row)[1] == 10
    print(f"{len(mutants) + 1} defects, each seen")
    return 0


def main():
    sys.setrecursionlimit(10000)
    parser = argparse.ArgumentParser()
    parser.add_argument("--csajit")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_80,sm_90,sm_100")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    nvdisasm = os.environ.get("CSAJIT_NVDISASM") or shutil.which("nvdisasm")
    if nvdisasm is None:
        print("skip machine_code: no nvdisasm here (tools/dev test fetches one; or set CSAJIT_NVDISASM)")
        return SKIPPED
    return check(arguments, nvdisasm)


if __name__ == "__main__":
    sys.exit(main())
