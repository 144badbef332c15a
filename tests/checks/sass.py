"""One kernel as nvdisasm prints it: instructions, basic blocks, and the code of one row. Judges nothing."""

import re

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,6})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
LABEL = re.compile(r"^(\.L_x?_?\w+):")
TARGET = re.compile(r"`\((\.L_x?_?\w+)\)")
ENDS = ("EXIT", "RET", "BRX", "JMX", "KILL")  # of a path


class Instruction:
    def __init__(self, guard, opcode, operands):
        self.guard = guard
        self.opcode = opcode
        self.head = opcode.split(".")[0]
        self.operands = operands

    def loads(self):
        """Registers that a load of global memory writes; None where this is none."""
        if self.head not in ("LDG", "LD"):
            return None
        base = re.search(r"\bR(\d+)", self.operands.partition(",")[0])
        if base is None:
            return set()
        width = 4 if ".128" in self.opcode else 2 if ".64" in self.opcode else 1
        return set(range(int(base.group(1)), int(base.group(1)) + width))

    def reads(self):
        """Registers that it may read. 64-bit and 128-bit sources are named by their first register only, which loads
        of several registers make up for: their own first register is enough to see a use."""
        _, _, sources = self.operands.partition(",")
        if self.head in ("ST", "STG", "STS", "RED", "BAR"):
            sources = self.operands
        return {int(r) for r in re.findall(r"\bR(\d+)", sources)}


class Block:
    def __init__(self, label):
        self.label = label
        self.code = []
        self.next = []  # indices of blocks

    def count_loads(self):
        return sum(i.loads() is not None for i in self.code)

    def late_loads(self):
        """Loads that stand behind the first use of what another load of the block brought, their addresses apart."""
        loaded, used, late = set(), False, 0
        for i in self.code:
            registers = i.loads()
            if registers is not None:
                late += used
                loaded |= registers
            else:
                used = used or bool(i.reads() & loaded)
        return late


class Kernel:
    def __init__(self, text):
        self.blocks = self._parse(text)
        self._connect()

    @staticmethod
    def _parse(text):
        blocks = [Block("entry")]
        in_text = False
        for line in text.splitlines():
            if re.match(r"\s*\.section\s", line):
                in_text = ".text." in line
            if not in_text:
                continue
            label = LABEL.match(line)
            if label:
                blocks.append(Block(label.group(1)))
                continue
            m = INSTRUCTION.match(line)
            if not m:
                continue
            blocks[-1].code.append(Instruction(m.group(2), m.group(3), m.group(4)))
            if blocks[-1].code[-1].head in ("BRA", *ENDS):
                blocks.append(Block(None))
        return [b for i, b in enumerate(blocks) if b.code or b.label]

    def _connect(self):
        at = {b.label: i for i, b in enumerate(self.blocks) if b.label}
        for i, block in enumerate(self.blocks):
            last = block.code[-1] if block.code else None
            if last is not None and last.head == "BRA":
                target = TARGET.search(last.operands)
                # BRA.DIV leaves for code that gathers threads that have parted: not the way of a row.
                if target and "DIV" not in last.opcode:
                    block.next.append(at[target.group(1)])
            falls = last is None or last.head not in ("BRA", *ENDS) or last.guard or "DIV" in last.opcode
            if last is not None and last.head == "BRA" and re.match(r"!?U?P[0-6T]", last.operands):
                falls = True  # a second predicate as operand
            if falls and i + 1 < len(self.blocks):
                block.next.append(i + 1)

    def instructions(self):
        return (i for block in self.blocks for i in block.code)

    def dominators(self):
        count = len(self.blocks)
        before = [[] for _ in range(count)]
        for i, block in enumerate(self.blocks):
            for n in block.next:
                before[n].append(i)
        everything = set(range(count))
        dom = [everything] * count
        dom[0] = {0}
        changed = True
        while changed:
            changed = False
            for i in range(1, count):
                known = [dom[b] for b in before[i]]
                new = (set.intersection(*known) if known else everything) | {i}
                if new != dom[i]:
                    dom[i], changed = new, True
        return dom, before

    def row(self):
        """The load block of a row: the one with most loads, and the longest way through the innermost loop around it,
        in instructions, without the IEEE divisions (FCHK is the mark of one)."""
        dom, before = self.dominators()
        reachable = self._reachable()
        load = max(reachable, key=lambda i: self.blocks[i].count_loads())
        slow = self._slow(dom, reachable)
        loops = self._loops(dom, before, reachable)
        around = [members for members in loops if load in members]
        body = min(around, key=len) if around else reachable
        return self.blocks[load], self._longest(load, body - slow, dom)

    def _reachable(self):
        seen, todo = set(), [0]
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo += self.blocks[i].next
        return seen

    def _slow(self, dom, reachable):
        divisions = [i for i in reachable if any(c.head == "FCHK" for c in self.blocks[i].code)]
        if not divisions:
            return set()
        common = set.intersection(*(dom[i] for i in divisions))
        entry = max(common, key=lambda i: len(dom[i]))
        if not any(c.head == "FCHK" for c in self.blocks[entry].code):
            return set()  # divisions here and there: they are the main path
        return {i for i in reachable if entry in dom[i]}

    def _loops(self, dom, before, reachable):
        """Natural loops: the blocks between each header and the jumps back to it."""
        loops = {}
        for i in reachable:
            for header in self.blocks[i].next:
                if header in dom[i]:
                    members = loops.setdefault(header, {header})
                    todo = [i]
                    while todo:
                        b = todo.pop()
                        if b not in members and b in reachable:
                            members.add(b)
                            todo += before[b]
        return list(loops.values())

    def _longest(self, through, body, dom):
        """Instructions of the longest way in `body` through one block, jumps back left out."""
        forward, backward = {}, {}

        def longest(i, edges, memo):
            if i not in memo:
                memo[i] = 0  # in case of a loop that is none
                best = max((longest(n, edges, memo) for n in edges[i]), default=0)
                memo[i] = len(self.blocks[i].code) + best
            return memo[i]

        ahead = {i: [n for n in self.blocks[i].next if n in body and n not in dom[i]] for i in body}
        behind = {i: [] for i in body}
        for i in body:
            for n in ahead[i]:
                behind[n].append(i)
        return longest(through, ahead, forward) + longest(through, behind, backward) - len(self.blocks[through].code)
