"""Judgement of a history by the guarantees of docs/internals/consistency.md.

Each function returns violations, one text each. `common_clock` says that all servers read one clock: then an acknowledged write is seen by every
later read through any server. Otherwise only sessions have an order (docs/internals/consistency.md, "Guarantees").
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from .history import FAIL, INFO, OK, Operation

RESOLUTION = 0.002
"""Seconds by which an answer must precede a request of another session to be before it: versions count milliseconds."""


def judge(operations: list[Operation], common_clock: bool) -> list[str]:
    """Returns all violations of a history whose last reads were made after all faults."""
    kinds: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        kinds[operation.f].append(operation)
    found: list[str] = []
    found += lists(kinds["append"], kinds["list"], common_clock)
    found += batches(kinds["append"], kinds["list"], kinds["lists-as-of"])
    found += repeated(kinds["lists-as-of"])
    found += registers(kinds["write"], kinds["read"], common_clock)
    found += claims(kinds["claim"], kinds["holder"])
    found += names(kinds["name"])
    found += marks(kinds["mark"], kinds["marked"], common_clock)
    return found


def grouped(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Returns the operations by key."""
    by_key: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_key[operation.key].append(operation)
    return by_key


def hubs(append: Operation) -> list[str]:
    """Returns the hubs of an append; their names are separated by blanks."""
    return append.key.split()


def numeric(version: str) -> tuple[str, int]:
    """Returns a version in its order: the time, always with milliseconds, then the logical part."""
    moment, _, logical = version.partition("~")
    return moment, int(logical or 0)


def lists(appends: list[Operation], reads: list[Operation], common_clock: bool) -> list[str]:
    """Checks lists: a read has the elements up to one point of one order, and those that its reader may rely on."""
    by_hub: dict[str, list[Operation]] = defaultdict(list)
    for append in appends:
        for hub in hubs(append):
            by_hub[hub].append(append)
    found = []
    for hub, group in grouped(reads).items():
        found += one_list(hub, by_hub[hub], [read for read in group if read.outcome == OK], common_clock)
    unread = set(by_hub) - {read.key for read in reads if read.outcome == OK and read.value == "last"}
    return found + [f"list {hub}: no read after the faults" for hub in sorted(unread) if any(a.outcome == OK for a in by_hub[hub])]


def one_list(hub: str, appends: list[Operation], reads: list[Operation], common_clock: bool) -> list[str]:
    """Checks the list of one hub. An element of a read is a pair of a number and its edge's version."""
    made = {append.value: append for append in appends}
    found, versions = [], {}
    for read in reads:
        numbers = [number for number, _ in read.result]
        if len(set(numbers)) < len(numbers):
            found.append(f"list {hub}: duplicate elements\n  {read.text()}")
        for number, version in read.result:
            append = made.get(number)
            if append is None or append.outcome == FAIL or append.begin > read.end:
                why = "that nobody appended" if append is None else "whose append was refused" if append.outcome == FAIL else "before its append"
                found.append(f"list {hub}: a read has element {number} {why}\n  {read.text()}" + (f"\n  {append.text()}" if append else ""))
            if versions.setdefault(number, version) != version:
                found.append(f"list {hub}: element {number} changed its version from {versions[number]}\n  {read.text()}")
    order = sorted(versions, key=lambda number: numeric(versions[number]))
    position = {number: index for index, number in enumerate(order)}
    # The smallest prefix of the order that has all elements of a read must have no more elements.
    length = {}
    for read in reads:
        numbers = {number for number, _ in read.result}
        length[id(read)] = max((position[n] + 1 for n in numbers), default=0)
        if length[id(read)] > len(numbers):
            missing = [n for n in order[: length[id(read)]] if n not in numbers]
            found.append(f"list {hub}: a read has a later element, but not {missing[:5]}\n  {read.text()}" + blame(missing, made))
        if read.value == "last":
            lost = [a.value for a in appends if a.outcome == OK and a.value not in numbers]
            if lost:
                found.append(f"list {hub}: lost acknowledged appends {lost[:5]} ({len(lost)} in all)\n  {read.text()}" + blame(lost, made))
    acknowledged = [a for a in appends if a.outcome == OK and a.value in position]
    steps = [(a.end, a.process, position[a.value] + 1, a) for a in acknowledged] + [(r.end, r.process, length[id(r)], r) for r in reads]
    starts = [(r.begin, r.process, length[id(r)], r) for r in reads]
    # An append comes behind everything that its client relies on.
    starts += [(a.begin, a.process, position[a.value], a) for a in acknowledged]
    stale = overtaken(steps, starts, lambda process: process)
    if common_clock:
        stale += overtaken([(end + RESOLUTION, *rest) for end, *rest in steps], starts, lambda process: "")
    for later, earlier, least in stale:
        found.append(f"list {hub}: stale: expected at least the first {least} elements\n  {later.text()}\n  after {earlier.text()}")
    return found


def overtaken(
    steps: list[tuple[float, str, int, Operation]], starts: list[tuple[float, str, int, Operation]], scope: Callable[[str], str]
) -> list[tuple[Operation, Operation, int]]:
    """Returns operations that got less than an operation before them, among the operations whose processes have the same `scope`."""
    found = []
    most: dict[str, tuple[int, Operation]] = {}
    pending = sorted(steps, key=lambda step: step[0])
    index = 0
    for begin, process, got, operation in sorted(starts, key=lambda start: start[0]):
        while index < len(pending) and pending[index][0] < begin:
            _, by, reached, earlier = pending[index]
            if scope(by) not in most or most[scope(by)][0] < reached:
                most[scope(by)] = (reached, earlier)
            index += 1
        if scope(process) in most and most[scope(process)][0] > got:
            found.append((operation, most[scope(process)][1], most[scope(process)][0]))
    return found


def blame(numbers: list[Any], made: dict[Any, Operation]) -> str:
    """Returns the appends of some elements, a line each."""
    return "".join(f"\n  {made[n].text()}" for n in numbers[:3] if n in made)


def batches(appends: list[Operation], reads: list[Operation], snapshots: list[Operation]) -> list[str]:
    """Checks that an append to several hubs is found in all of them or in none, in the end and as of any version."""
    last = {read.key: {n for n, _ in read.result} for read in reads if read.outcome == OK and read.value == "last"}
    found = []
    several = [append for append in appends if len(hubs(append)) > 1]
    for append in several:
        has = [append.value in last[hub] for hub in hubs(append) if hub in last]
        if any(has) and not all(has):
            found.append(f"half of a batch: {append.text()}")
    members: dict[str, set[Any]] = defaultdict(set)
    for append in several:
        members[append.key].add(append.value)
    for snapshot in snapshots:
        if snapshot.outcome != OK:
            continue
        first, *others = ({n for n, _ in part} & members[snapshot.key] for part in snapshot.result)
        for other in others:
            if first != other:
                found.append(f"half of a batch, as of one version: {sorted(first ^ other)[:5]}\n  {snapshot.text()}")
    return found


def repeated(snapshots: list[Operation]) -> list[str]:
    """Checks that reads as of the same version have the same result."""
    found, first = [], {}
    for snapshot in snapshots:
        if snapshot.outcome == OK:
            earlier = first.setdefault((snapshot.key, snapshot.value), snapshot)
            if earlier.result != snapshot.result:
                found.append(f"a read as of one version was not repeatable\n  {earlier.text()}\n  {snapshot.text()}")
    return found


def registers(writes: list[Operation], reads: list[Operation], common_clock: bool) -> list[str]:
    """Checks registers, whose written values are unique: linearizable with a common clock, ordered by sessions without."""
    by_key, found = grouped(writes), []
    for key, group in grouped(reads).items():
        completed = [read for read in group if read.outcome == OK]
        made = {write.value: write for write in by_key[key]}
        known = []
        for read in completed:
            value = read.result
            if isinstance(value, list):
                # Registers that one batch writes together.
                if any(one != value[0] for one in value):
                    found.append(f"register {key}: half of a batch\n  {read.text()}")
                    continue
                value = value[0]
            write = made.get(value)
            if value is not None and (write is None or write.outcome == FAIL):
                found.append(f"register {key}: a read has a value that nobody wrote\n  {read.text()}")
                continue
            known.append((read, value))
        found += monotonic(key, list(made.values()), known)
        if common_clock:
            later = [dataclasses.replace(write, end=write.end + RESOLUTION) for write in made.values()]
            found += linearizable(key, later, [(dataclasses.replace(read, end=read.end + RESOLUTION), value) for read, value in known])
    return found


def linearizable(key: str, writes: list[Operation], reads: list[tuple[Operation, Any]]) -> list[str]:
    """Decides whether a register with unique values is linearizable (Gibbons and Korach, Testing Shared Memories, 1997, section 4).

    The operations of a value, its write and its reads, must be next to each other in the order. Its zone is the time between its first response
    and its last request. Where the response is first, the value is current in the whole zone (`forward`): such zones must not overlap, and no
    other value's operations can all be inside one.
    """
    found, values = [], {None: [Operation("start", "write", key, None, -1.0, -1.0, OK)]}
    for write in writes:
        if write.outcome != FAIL:
            values[write.value] = [write]
    for read, value in reads:
        if read.end < values[value][0].begin:
            found.append(f"register {key}: a value was read before its write\n  {read.text()}\n  {values[value][0].text()}")
        values[value].append(read)
    forward, backward = [], []
    for value, group in values.items():
        if len(group) == 1 and group[0].outcome == INFO:
            continue  # Without a read, the write may have had no effect.
        response = min(group, key=lambda o: o.end)
        request = max(group, key=lambda o: o.begin)
        (forward if response.end < request.begin else backward).append((response, request, value))
    forward.sort(key=lambda zone: zone[0].end)
    for before, after in zip(forward, forward[1:], strict=False):
        if before[1].begin > after[0].end:
            shown = "\n  ".join(o.text() for o in (*before[:2], *after[:2]))
            found.append(f"register {key}: values {before[2]} and {after[2]} overwrite each other\n  {shown}")
    for response, request, value in backward:
        for low, high, other in forward:
            # One operation of `value` began after a response with `other`, and one ended before a request that still got `other`.
            if low.end < request.begin and response.end < high.begin:
                shown = "\n  ".join(o.text() for o in (low, response, request, high))
                found.append(f"register {key}: value {value} was current between two reads of {other}\n  {shown}")
    return found


def monotonic(key: str, writes: list[Operation], reads: list[tuple[Operation, Any]]) -> list[str]:
    """Checks that no client goes back behind a version that it has written or read. Values of unknown version are left out."""
    version = {write.value: numeric(write.version) for write in writes if write.version}
    order = {value: index + 1 for index, value in enumerate(sorted(version, key=lambda value: version[value]))}
    order[None] = 0
    steps = [(w.end, w.process, order[w.value], w) for w in writes if w.outcome == OK and w.value in order]
    known = [(read, order[value]) for read, value in reads if value in order]
    steps += [(read.end, read.process, index, read) for read, index in known]
    starts = [(read.begin, read.process, index, read) for read, index in known]
    stale = overtaken(steps, starts, lambda process: process)
    return [f"register {key}: stale\n  {later.text()}\n  after {earlier.text()}" for later, earlier, _ in stale]


def claims(creations: list[Operation], holders: list[Operation]) -> list[str]:
    """Checks names that several clients try to create once: one of them succeeds, and the name is that one's."""
    found = []
    last = {holder.key: holder for holder in holders if holder.outcome == OK}
    for name, group in grouped(creations).items():
        winners = [creation for creation in group if creation.outcome == OK]
        possible = {creation.value for creation in group if creation.outcome != FAIL}
        shown = "".join(f"\n  {creation.text()}" for creation in group)
        if len(winners) > 1:
            found.append(f"name {name}: created twice{shown}")
        holder = last.get(name)
        if holder is None:
            if winners:
                found.append(f"name {name}: no read after the faults{shown}")
        elif winners and holder.result != winners[0].value:
            found.append(f"name {name}: acknowledged to {winners[0].value}, found with {holder.result}{shown}")
        elif holder.result is not None and holder.result not in possible:
            found.append(f"name {name}: found with {holder.result}, whose creation was refused{shown}")
        for creation in group:
            if creation.outcome == FAIL and not any(o is not creation and o.outcome != FAIL and o.begin < creation.end for o in group):
                found.append(f"name {name}: a creation was refused although nobody else created it{shown}")
    return found


def names(operations: list[Operation]) -> list[str]:
    """Checks names that one client creates, renames and deletes; the value is the action and the number that identifies the object."""
    found = []
    for key, group in grouped(operations).items():
        # The suffixes under which the object may be; None if it may not exist.
        states: set[str | None] = {None}
        for operation in group:
            action, suffix = operation.value
            if action == "look":
                if operation.outcome != OK:
                    continue
                there = operation.result
                fitting = {state for state in states if (state == suffix) == there}
                if not fitting:
                    shown = "".join(f"\n  {o.text()}" for o in group[: group.index(operation) + 1][-6:])
                    found.append(f"name {key}: {suffix} is {'found' if there else 'not found'}, but the name is {states}{shown}")
                    break
                states = fitting
            elif operation.outcome == OK:
                states = {suffix}
            elif operation.outcome == INFO:
                states |= {suffix}
            else:
                shown = "".join(f"\n  {o.text()}" for o in group[: group.index(operation) + 1][-6:])
                found.append(f"name {key}: a change was refused that nobody prevented{shown}")
                break
    return found


def marks(changes: list[Operation], searches: list[Operation], common_clock: bool) -> list[str]:
    """Checks a tag that one client sets on all objects of a group, with rising numbers: a search finds no object with less than it may expect."""
    found = []
    for search in searches:
        if search.outcome != OK:
            continue
        before = [c for c in changes if c.outcome == OK and c.process == search.process and c.end < search.begin]
        if common_clock:
            before += [c for c in changes if c.outcome == OK and c.end + RESOLUTION < search.begin]
        least = max((c.value for c in before), default=0)
        most = max((c.value for c in changes if c.begin < search.end), default=0)
        wrong = [mark for mark in search.result if not least <= mark <= most]
        if wrong or len(search.result) != search.value:
            expected = f"expected {search.value} objects with {least} to {most}"
            found.append(f"marks: {expected}; found {len(search.result)}, of which wrong {wrong[:5]}\n  {search.text()}")
    return found
