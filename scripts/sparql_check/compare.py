"""Comparison of answers: rows as multisets, with blank nodes of any labels."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal, InvalidOperation

from .engines import Answer, Term

XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGERS = {
    XSD + name
    for name in (
        *("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
        *("unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    )
}
EQUAL, LEXICAL, DIFFERENT = "equal", "lexical", "different"


def value_of(term: Term) -> Term:
    """Returns a term that is the same for all lexical forms of a value. Types derived from integer are integers."""
    if term[0] == "triple":
        return ("triple", *(value_of(part) for part in term[1:]))
    if term[0] != "literal":
        return term
    _, text, datatype, language = term
    try:
        if datatype in INTEGERS:
            return ("literal", str(int(text)), XSD + "integer", language)
        if datatype == XSD + "decimal":
            return ("literal", str(Decimal(text).normalize() + 0), datatype, language)
        if datatype in (XSD + "double", XSD + "float"):
            return ("literal", repr(float(text)), datatype, language)
    except (ValueError, InvalidOperation):
        return term
    if datatype == XSD + "boolean":
        return ("literal", {"1": "true", "0": "false"}.get(text, text), datatype, language)
    if datatype in (XSD + "dateTime", XSD + "date", XSD + "time"):
        text = re.sub(r"(\.\d*?)0+(?=$|[Z+-])", r"\1", text)
        return ("literal", re.sub(r"\.(?=$|[Z+-])", "", text).replace("+00:00", "Z"), datatype, language)
    return term


def labels(term: Term) -> list[str]:
    if term[0] == "bnode":
        return [term[1]]
    return [label for part in term[1:] for label in labels(part)] if term[0] == "triple" else []


def renamed(term: Term, colors: dict[str, int]) -> Term:
    if term[0] == "bnode":
        return ("bnode", colors.get(term[1], 0))
    return ("triple", *(renamed(part, colors) for part in term[1:])) if term[0] == "triple" else term


def normal(rows: list) -> Counter:
    """Returns rows with blank nodes named by their places in the rows: equal for isomorphic rows."""
    colors: dict[str, int] = {}
    names = {label for row in rows for _, term in row for label in labels(term)}
    for _ in range(min(len(names), 4)):
        seen: dict[str, list] = {name: [] for name in names}
        for row in rows:
            for label in {label for _, term in row for label in labels(term)}:
                seen[label].append(tuple((name, renamed(term, colors | {label: -1})) for name, term in row))
        colors = {name: hash((colors.get(name, 0), tuple(sorted(map(hash, places))))) for name, places in seen.items()}
    return Counter(tuple((name, renamed(term, colors)) for name, term in row) for row in rows)


def compare(one: Answer, other: Answer) -> str:
    """Compares two answers. All errors are equal."""
    if one[0] != other[0]:
        return DIFFERENT
    if one[0] == "error":
        return EQUAL
    if one[0] == "boolean":
        return EQUAL if one[1] == other[1] else DIFFERENT
    if normal(one[1]) == normal(other[1]):
        return EQUAL
    values = [[tuple((name, value_of(term)) for name, term in row) for row in answer[1]] for answer in (one, other)]
    return LEXICAL if normal(values[0]) == normal(values[1]) else DIFFERENT
