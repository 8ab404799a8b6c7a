"""Makes a case smaller while its answers still differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .generate import Case, Node, leaf

SIMPLE = {"expression": ["?a", "1"]}
TRIES = 400
"""Largest number of smaller cases that are tried."""


def smaller_nodes(node: Node) -> Iterator[Node]:
    """Yields versions of a node with one part less, or with a part replaced by a smaller one."""
    if node.form is None:
        for i in range(len(node.children)):
            yield Node(node.sort, None, node.children[:i] + node.children[i + 1 :])
    yield from within(node, node.sort)
    if node.sort == "element" and node.form is not None:
        # A group's elements take the place of the group.
        for group in (child for child in node.children if child.sort == "group"):
            yield Node("element", None, group.children)
    for text in SIMPLE.get(node.sort, []):
        if node.children:
            yield leaf(node.sort, text)
    for i, child in enumerate(node.children):
        for less in smaller_nodes(child):
            yield Node(node.sort, node.form, [*node.children[:i], less, *node.children[i + 1 :]])


def within(node: Node, sort: str) -> Iterator[Node]:
    """Yields the parts of a node that have a sort."""
    for child in node.children:
        if child.sort == sort:
            yield child
        elif sort in ("expression", "select"):
            yield from within(child, sort)


def smaller(case: Case) -> Iterator[Case]:
    half = len(case.quads) // 2
    if half > 1:
        yield replace(case, quads=case.quads[:half])
        yield replace(case, quads=case.quads[half:])
    for node in smaller_nodes(case.request):
        yield replace(case, request=node)
    for i in range(len(case.quads)):
        yield replace(case, quads=case.quads[:i] + case.quads[i + 1 :])


def shrink(case: Case, differs: Callable[[Case], bool]) -> Case:
    """Returns a small case for which `differs` is true, as it is for the given one."""
    tries = 0
    progress = True
    while progress and tries < TRIES:
        progress = False
        for less in smaller(case):
            tries += 1
            if tries > TRIES:
                break
            if differs(less):
                case, progress = less, True
                break
    return case
