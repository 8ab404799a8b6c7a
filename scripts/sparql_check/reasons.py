"""Listed reasons of differences: the paragraph of a specification that decides, and the engine that deviates from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .compare import LEXICAL, compare
from .engines import Answer
from .generate import GRAPHS, Case


@dataclass
class Reason:
    """A known difference between Esker and another engine."""

    engine: str
    text: str
    paragraph: str
    applies: Callable[[Case, Answer, Answer], bool]


LEXICAL_FORMS = "numbers are stored as values, without their lexical forms and derived types (RDF 1.1 Concepts, section 3.3)"
"""Reason of all lexical differences to Oxigraph."""


def mentions(pattern: str) -> Callable[[Case, Answer, Answer], bool]:
    """Returns a predicate for cases whose data or request has a match of a regular expression."""
    compiled = re.compile(pattern)
    return lambda case, _ours, _theirs: bool(compiled.search(f"{case.data()} | {case.request.text()}"))


def fails(pattern: str) -> Callable[[Case, Answer, Answer], bool]:
    """Returns a predicate for cases where the other engine's error has a match of a regular expression."""
    compiled = re.compile(pattern)
    return lambda _case, _ours, theirs: theirs[0] == "error" and bool(compiled.search(theirs[1]))


def is_mixed(case: Case, ours: Answer, theirs: Answer) -> bool:
    """Whether MIN or MAX chose among values whose order is not defined: answers have other terms, of other types."""
    if not re.search(r"(MIN|MAX)\(", case.request.text()) or (ours[0], theirs[0]) != ("rows", "rows"):
        return False
    terms = [{term for row in answer[1] for _, term in row} for answer in (ours, theirs)]
    return not any(is_before(a, b) or is_before(b, a) for a in terms[0] - terms[1] for b in terms[1] - terms[0])


COMPUTES = re.compile(r"SUM|AVG|ABS|CEIL|FLOOR|ROUND|SECONDS|xsd:\w+\(| [-+*/] |\(- ")
"""Requests that compute numbers."""
def leaves_graph(case: Case, _ours: Answer, _theirs: Answer) -> bool:
    """Whether the request has a path of length zero, and a term that is not a node of each graph, as predicates and computed terms may be."""
    text = case.request.text()
    if not re.search(r"\)[*?]", text):
        return False
    nodes: dict[str, set[str]] = {"": set(), **{graph: set() for graph in GRAPHS}}
    for graph, triple in case.quads:
        subject, _, end = triple.removesuffix(" .").split(" ", 2)
        nodes[graph] |= {subject, end}
    named = set(re.findall(r':n\d|"[^"]*"(?:@[\w-]+|\^\^\S*\w)?|(?<![\w:"])-?\d[\d.]*\d|(?<![\w:"])-?\d|\btrue|\bfalse', text))
    return any(not named <= of_graph for of_graph in nodes.values()) or bool(re.search(r"BIND|GRAPH|\bAS |\S \?\w+ \S+ \.", text))


ZERO_LENGTH = (
    "a path of length zero leads to a term that is not in the graph, or does not",
    "SPARQL 1.1 Query, section 18.4, ZeroLengthPath: it does from a given term; between variables its solutions are nodes of the graph",
    leaves_graph,
)
MIXED = (
    "MIN and MAX of values of several types",
    "SPARQL 1.1 Query, section 15.1: the order of such values is not defined",
    is_mixed,
)
REASONS: list[Reason] = [
    Reason("Oxigraph", *ZERO_LENGTH),
    Reason(
        "Oxigraph",
        "COUNT of an expression with an error is an error",
        "SPARQL 1.1 Query, section 18.5.1: ListEval and Count leave errors out",
        mentions(r"COUNT\((DISTINCT [^*?]|(?!DISTINCT)[^*?])"),
    ),
    Reason(
        "Oxigraph",
        "numbers are stored as values, so that literals with different lexical forms are one term",
        "RDF 1.1 Concepts, section 3.3",
        mentions(r'"01"|"\+1"|xsd:byte|1\.0|2\.50|"1"\^\^xsd:boolean'),
    ),
    Reason(
        "Oxigraph",
        "MINUS of a group without variables removes solutions",
        "SPARQL 1.1 Query, section 18.5, Minus: solutions without common variables stay",
        mentions(r"MINUS \{\s*\}"),
    ),
    Reason(
        "Oxigraph",
        "an alternative of paths, as a part of a path, loses duplicates",
        "SPARQL 1.1 Query, section 18.4, Alternative: a union",
        mentions(r"[\w)+*?]\|[(!^:]"),
    ),
    Reason(
        "Oxigraph",
        "GRAPH with a group that has no triple patterns is evaluated without the graph",
        "SPARQL 1.1 Query, section 18.6, Graph: no solution where the IRI names no graph, one for each graph of a variable",
        mentions(r"GRAPH (:g\d|\?g) \{ (GRAPH|\{|\}|MINUS|FILTER|VALUES|BIND|OPTIONAL|SELECT)"),
    ),
    Reason(
        "Oxigraph",
        "COUNT(DISTINCT *) counts blank nodes of the query as variables",
        "SPARQL 1.1 Query, section 18.3.1: solutions have variables only",
        mentions(r"COUNT\(DISTINCT \*\)"),
    ),
    Reason(
        "Oxigraph",
        "a variable within a triple term that is bound to a term of the wrong kind fails",
        "SPARQL 1.2 Query, section 18.3.1: such a pattern has no solution",
        fails("not a valid RDF 1.2 term"),
    ),
    Reason(
        "Oxigraph",
        "durations have a unary minus",
        "SPARQL 1.1 Query, section 17.3: there is no such operator",
        mentions(r"\(- .*uration|uration.*\(- "),
    ),
    Reason(
        "Oxigraph",
        "booleans have no order",
        "SPARQL 1.1 Query, section 17.3: op:boolean-less-than",
        mentions(r"(true|false|\)) [<>]=? |[<>]=? (true|false|\(|is|sameTerm)|(true|false)\b.* [<>]=? "),
    ),
    Reason("Oxigraph", *MIXED),
    Reason("Jena", *MIXED),
    Reason("Jena", *ZERO_LENGTH),
    Reason(
        "Jena",
        "BIND sees variables of patterns outside of its group",
        "SPARQL 1.1 Query, section 18.2.2.6: Extend of the patterns before it in its group",
        mentions(r"[{}] BIND\("),
    ),
    Reason(
        "Jena",
        "IF has a value where its condition is an error",
        "SPARQL 1.1 Query, section 17.4.1.2",
        mentions(r"IF\("),
    ),
    Reason(
        "Jena",
        "computed numbers have other lexical forms",
        "SPARQL 1.1 Query, section 17.3: it defines values, not lexical forms",
        lambda case, ours, theirs: compare(ours, theirs) == LEXICAL and bool(COMPUTES.search(case.request.text())),
    ),
    Reason(
        "Jena",
        "a difference of dates or times is an xsd:duration",
        "F&O 10.8: it is an xsd:dayTimeDuration; SPARQL 1.1 Query, section 17.3, has no such operator",
        mentions(r" - .*xsd:(date|dateTime|time)\b|xsd:(date|dateTime|time)\b.* - "),
    ),
    Reason(
        "Jena",
        "WITH of a graph that does not exist leaves WHERE without the solution of an empty group",
        "SPARQL 1.1 Update, section 3.1.3: WITH and USING name the default graph of WHERE",
        mentions(r"WITH :g"),
    ),
    Reason(
        "Jena",
        "the decimal number 0.0 has the boolean value true, and INF false",
        "SPARQL 1.1 Query, section 17.2.2: zero and NaN are false",
        mentions(r"xsd:decimal\(|\bINF\b"),
    ),
    Reason(
        "Jena",
        "functions of dates take durations",
        "SPARQL 1.1 Query, section 17.4.5: their arguments are xsd:dateTime",
        mentions(r"(YEAR|MONTH|DAY|HOURS|MINUTES|SECONDS)\(.*uration|uration.*(YEAR|MONTH|DAY|HOURS|MINUTES|SECONDS)\("),
    ),
    Reason(
        "Jena",
        "xsd:boolean of NaN is true",
        "F&O 17.1.6: it is false",
        mentions("NaN"),
    ),
    Reason(
        "Jena",
        "a filter with a disjunction of equalities binds an unbound variable",
        "SPARQL 1.1 Query, section 18.5, Filter: it adds no bindings, and an error removes the solution",
        mentions(r"\bIN \(|=.* \|\| .*="),
    ),
    Reason(
        "Jena",
        "STR of a blank node is no error",
        "SPARQL 1.1 Query, section 17.4.2.5: its argument is a literal or an IRI",
        mentions(r"STR\("),
    ),
    Reason(
        "Jena",
        "a filter is evaluated before a variable that UNDEF leaves unbound has its value",
        "SPARQL 1.1 Query, section 18.2.2: Filter applies to the whole group",
        mentions("UNDEF"),
    ),
    Reason(
        "Jena",
        "a sum of strings is their concatenation",
        "SPARQL 1.1 Query, section 17.3: there is no such operator",
        mentions(r" \+ "),
    ),
    Reason(
        "Jena",
        "functions of dates fail for IRIs, and the query with them",
        "SPARQL 1.1 Query, section 17.3: an error of an expression leaves the rest of the query as it is",
        fails(r"Node\$NotLiteral"),
    ),
    Reason(
        "Jena",
        "COPY and MOVE of a graph that does not exist leave the target as it is",
        "SPARQL 1.1 Update, sections 3.2.3 and 3.2.5: they begin with DROP of the target",
        mentions(r"(COPY|MOVE) SILENT"),
    ),
    Reason(
        "Jena",
        "a variable that is bound to a literal or a blank node fails as a predicate",
        "SPARQL 1.1 Query, section 18.3.1: such a pattern has no solution",
        fails("Unidentified predicate"),
    ),
    Reason(
        "Jena",
        "a variable that is bound to a literal or a blank node fails as a predicate, within EXISTS",
        "SPARQL 1.1 Query, section 18.3.1: such a pattern has no solution",
        mentions(r"EXISTS \{.* (\?\w+|_:\w+|\S+) (\?\w+|\(.*\?\w+.*) "),
    ),
    Reason(
        "Jena",
        "strings with a language tag have a boolean value",
        "SPARQL 1.2 Query, section 17.2.2; expression/not-not of the W3C",
        mentions(r'"@|STRLANG'),
    ),
]


def reason_of(engine: str, case: Case, ours: Answer, theirs: Answer) -> str | None:
    """Returns the listed reason of a difference."""
    for reason in REASONS:
        if reason.engine == engine and reason.applies(case, ours, theirs):
            return f"{reason.text} ({reason.paragraph})"
    return None


def is_ordered(case: Case, answer: Answer) -> bool:
    """Whether the rows of a query with ORDER BY have the order of SPARQL 1.1 Query, section 15.1, as far as it is defined."""
    match = re.search(r"ORDER BY (DESC\()?\?(\w+)", case.request.text())
    if not match or answer[0] != "rows":
        return True
    terms = [dict(row).get(match[2]) for row in answer[1]]
    if match[1]:
        terms.reverse()
    return not any(is_before(later, earlier) for earlier, later in zip(terms, terms[1:], strict=False))


def is_before(one: tuple | None, other: tuple | None) -> bool:
    kinds = {"bnode": 1, "uri": 2, "literal": 3, "triple": 4}
    ranks = [kinds[term[0]] if term else 0 for term in (one, other)]
    if ranks[0] != ranks[1] or ranks[0] in (0, 1, 4):
        return ranks[0] < ranks[1]
    if ranks[0] == 2:
        return one[1] < other[1]
    numbers = [number(term) for term in (one, other)]
    if None not in numbers:
        return numbers[0] < numbers[1]
    return one[2:] == other[2:] and one[2].endswith("#string") and one[1] < other[1]


def number(term: tuple) -> float | None:
    if not term[2].endswith(("#integer", "#decimal", "#double", "#float", "#byte")):
        return None
    try:
        return float(term[1])
    except ValueError:
        return None
