"""Compares the ctypes mirror with include/csajit/csajit.h: size, offset of each field, constants. Needs only cc.

Usage: test_ctypes_layout.py [--cc COMPILER]; exits non-zero on any difference.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile

import csajit_abi as abi

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join(ROOT, "include", "csajit", "csajit.h")

CONSTANTS = {
    "CSAJIT_" + name: value
    for name, value in vars(abi).items()
    if isinstance(value, int) and name.isupper() and name != "OK"
}


def fields_in_header(struct):
    """Field names of a struct as the header spells them, so that an appended field cannot go unseen."""
    with open(HEADER, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct, struct), text, re.S)
    return [re.split(r"[\s*]+", part.strip())[-1] for part in body.group(1).split(";") if part.strip()]


def measured_by_compiler(compiler):
    lines = ["#include <csajit/csajit.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for struct in abi.STRUCTS:
        lines.append(f'  printf("{struct.c_name} %zu\\n", sizeof({struct.c_name}));')
        for field in fields_in_header(struct.c_name):
            lines.append(f'  printf("{struct.c_name}.{field} %zu\\n", offsetof({struct.c_name}, {field}));')
    for name in CONSTANTS:
        lines.append(f'  printf("{name} %ld\\n", (long)({name}));')
    lines += ["  return 0;", "}", ""]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "layout.c")
        program = os.path.join(folder, "layout")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        include = os.path.join(ROOT, "include")
        subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "-I", include, source, "-o", program], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def mirrored():
    table = {}
    for struct in abi.STRUCTS:
        table[struct.c_name] = ctypes.sizeof(struct)
        for name, _ in struct._fields_:
            table[f"{struct.c_name}.{name}"] = getattr(struct, name).offset
    table.update(CONSTANTS)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    header = measured_by_compiler(parser.parse_args().cc)
    mirror = mirrored()
    bad = [name for name in sorted(header.keys() | mirror.keys()) if header.get(name) != mirror.get(name)]
    for name in bad:
        print(f"{name}: header {header.get(name)}, mirror {mirror.get(name)}")
    print(f"ctypes layout: {len(header)} figures compared, {len(bad)} differ")
    print(f"{0 if bad else 1} passed, {1 if bad else 0} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
