"""Random datasets, queries and updates, as trees that can be made smaller."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

PREFIXES = "BASE <http://e/> PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
VARIABLES = ["?a", "?b", "?c", "?d", "?e"]
GRAPHS = [":g0", ":g1"]
LITERALS = [
    *["0", "1", "2", "3", "-1", "10"],
    *["0.5", "1.5", "2.5", "-2.5", '"1"^^xsd:decimal'],
    *['"1"^^xsd:double', '"2.5"^^xsd:double', '"INF"^^xsd:double', '"NaN"^^xsd:double', '"2"^^xsd:float', '"0.1"^^xsd:float'],
    *['"a"', '"b"', '"ab"', '""', '"10"', '"1"', '"aé😀"'],
    *['"a"@en', '"b"@en', '"a"@fr', '"ab"@en-GB'],
    *["true", "false"],
    *['"2020-01-02"^^xsd:date', '"2020-01-02Z"^^xsd:date', '"2020-01-03+02:00"^^xsd:date', '"2019-12-31"^^xsd:date'],
    *['"2020-01-02T03:04:05"^^xsd:dateTime', '"2020-01-02T03:04:05Z"^^xsd:dateTime', '"2020-01-02T03:04:05+02:00"^^xsd:dateTime'],
    *['"2019-12-31T23:59:59.5Z"^^xsd:dateTime', '"12:00:00"^^xsd:time', '"P1D"^^xsd:dayTimeDuration'],
]
UNUSUAL = [
    *['"x"^^xsd:integer', '"z"^^:dt', '"y"^^:dt', '"01"^^xsd:integer', '"1"^^xsd:byte', '"maybe"^^xsd:boolean', '"2020-13-01"^^xsd:date'],
    *["1.0", '"1.0E0"^^xsd:double', '"2.50"^^xsd:float', '"+1"^^xsd:integer', '"1"^^xsd:boolean'],
]
"""Literals that are ill-typed, of unknown datatypes, or not in the form that all engines keep."""


@dataclass
class Node:
    """A part of a request: text with a place for each child, or the children one after the other."""

    sort: str
    """Parts of one sort may replace each other."""
    form: str | None
    children: list[Node] = field(default_factory=list)

    def text(self) -> str:
        texts = [child.text() for child in self.children]
        return " ".join(texts) if self.form is None else self.form.format(*texts)


@dataclass
class Case:
    """A dataset and a request."""

    quads: list[tuple[str, str]]
    """Graph (empty: the default graph) and triple of each quad."""
    request: Node
    is_update: bool
    is_rdf_12: bool = False
    """Whether there may be triple terms."""

    def data(self) -> str:
        """Returns the dataset in the syntax of quads in updates."""
        return " ".join(f"GRAPH {graph} {{ {triple} }}" if graph else triple for graph, triple in self.quads)

    def trig(self) -> str:
        return PREFIXES + " ".join(f"{graph} {{ {triple} }}" if graph else triple for graph, triple in self.quads)

    def text(self) -> str:
        return PREFIXES + self.request.text()

    def show(self) -> str:
        kind = "update" if self.is_update else "query"
        return f"data:   {self.data()}\n{kind}: {self.request.text()}"


def leaf(sort: str, text: str) -> Node:
    return Node(sort, text.replace("{", "{{").replace("}", "}}"))


class Generator:
    """Draws cases from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.unusual = 0.3 if seed % 8 == 0 else 0.0
        """Share of unusual literals; they are in one of eight datasets, because not all engines store them as they are."""
        self.triple_terms = 0.15 if seed % 8 == 4 else 0.0
        """Share of triple terms (RDF 1.2); they are in one of eight datasets, because not all engines know them."""
        self.fresh = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices):
        return self.random.choice(choices)

    def weighted(self, choices: list[tuple[int, object]]):
        return self.random.choices([choice for _, choice in choices], [weight for weight, _ in choices])[0]

    # Terms

    def iri(self) -> str:
        return f":n{self.random.randrange(6)}"

    def predicate(self) -> str:
        return f":p{self.random.randrange(4)}"

    def literal(self) -> str:
        return self.pick(UNUSUAL) if self.chance(self.unusual) else self.pick(LITERALS)

    def term(self) -> str:
        if self.chance(self.triple_terms):
            return f"<<( {self.iri()} {self.predicate()} {self.term()} )>>"
        return self.iri() if self.chance(0.5) else self.literal()

    def variable(self) -> str:
        return self.pick(VARIABLES)

    def dataset(self) -> list[tuple[str, str]]:
        quads = []
        for _ in range(self.pick([3, 8, 20])):
            subject = f"_:b{self.random.randrange(2)}" if self.chance(0.08) else self.iri()
            o = f"_:b{self.random.randrange(2)}" if self.chance(0.08) else self.term()
            quads.append((self.weighted([(6, ""), (2, ":g0"), (2, ":g1")]), f"{subject} {self.predicate()} {o} ."))
        return quads

    # Patterns

    def path(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.3):
            return self.predicate()
        inner = lambda: self.path(depth - 1)  # noqa: E731
        return self.weighted(
            [
                (2, lambda: f"({inner()}/{inner()})"),
                (2, lambda: f"({inner()}|{inner()})"),
                (2, lambda: f"(^{inner()})"),
                (2, lambda: f"({inner()})+"),
                (2, lambda: f"({inner()})*"),
                (2, lambda: f"({inner()})?"),
                (1, lambda: f"!({self.predicate()}|^{self.predicate()})"),
                (1, lambda: f"!{self.predicate()}"),
            ]
        )()

    def label(self) -> str:
        """Returns a blank node that no other pattern has: a label may not be in two basic graph patterns."""
        self.fresh += 1
        return f"_:q{self.fresh}"

    def triple(self) -> Node:
        subject = self.weighted([(6, self.variable), (2, self.iri), (1, self.label)])()
        verb = self.weighted([(6, self.predicate), (2, self.variable), (2, self.path)])()
        end = self.weighted([(5, self.variable), (3, self.term), (1, lambda: "[]")])()
        if self.chance(self.triple_terms):
            end = f"<<( {self.pick([self.variable(), self.iri()])} {self.pick([self.variable(), self.predicate()])} {end.replace('[]', '?a')} )>>"
        return leaf("element", f"{subject} {verb} {end} .")

    def expression(self, depth: int = 2) -> Node:
        if depth == 0 or self.chance(0.2):
            text = self.variable() if self.chance(0.65) else self.term()
            return leaf("expression", text)
        form = self.weighted(
            [
                (8, "({} = {})"),
                (5, "({} != {})"),
                (5, "({} < {})"),
                (6, "({} <= {})"),
                (5, "({} > {})"),
                (6, "({} >= {})"),
                (4, "({} && {})"),
                (4, "({} || {})"),
                (4, "(! {})"),
                (3, "({} + {})"),
                (3, "({} - {})"),
                (3, "({} * {})"),
                (2, "({} / {})"),
                (1, "(- {})"),
                (3, "sameTerm({}, {})"),
                (3, "({} IN ({}, {}))"),
                (2, "({} NOT IN ({}, {}))"),
                (2, "IF({}, {}, {})"),
                (2, "COALESCE({}, {})"),
                (20, None),
            ]
        )
        if form is None and self.chance(2 * self.triple_terms):
            form = self.pick(["TRIPLE({}, {}, {})", "SUBJECT({})", "PREDICATE({})", "OBJECT({})", "isTRIPLE({})"])
        if form is None:
            form = self.pick(
                [
                    *["STR({})", "LANG({})", "DATATYPE({})", "STRLEN({})", "UCASE({})", "LCASE({})", "CONCAT({}, {})", "CONTAINS({}, {})"],
                    *["STRSTARTS({}, {})", "STRENDS({}, {})", "STRBEFORE({}, {})", "STRAFTER({}, {})", "SUBSTR({}, {})", "SUBSTR({}, {}, {})"],
                    *["ABS({})", "CEIL({})", "FLOOR({})", "ROUND({})", "YEAR({})", "MONTH({})", "DAY({})", "HOURS({})", "MINUTES({})"],
                    *["SECONDS({})", "TIMEZONE({})", "TZ({})", "isIRI({})", "isBLANK({})", "isLITERAL({})", "isNUMERIC({})"],
                    *["LANGMATCHES(LANG({}), \"en\")", "REGEX(STR({}), \"^[a1]\")", "REPLACE({}, \"a\", \"b\")", "STRDT({}, xsd:integer)"],
                    *["STRLANG({}, \"en\")", "ENCODE_FOR_URI({})", "MD5({})", "IRI(STR({}))", "xsd:integer({})", "xsd:decimal({})"],
                    *["xsd:double({})", "xsd:float({})", "xsd:boolean({})", "xsd:string({})", "xsd:dateTime({})"],
                    *["xsd:date({})"],
                ]
            )
        return Node("expression", form, [self.expression(depth - 1) for _ in range(form.count("{}"))])

    def condition(self) -> Node:
        """Draws an expression that often is a comparison, also of one variable with itself."""
        if self.chance(0.15):
            variable = self.variable()
            return leaf("expression", f"({variable} {self.pick(['=', '!=', '<', '<=', '>', '>='])} {variable})")
        if self.chance(0.08):
            variable = self.variable()
            return leaf("expression", f"{self.pick(['', '!'])}BOUND({variable})")
        if self.chance(0.05):
            group = Node("group", None, [self.triple() for _ in range(self.pick([1, 2]))])
            return Node("expression", self.pick(["({} || EXISTS {{ {} }})", "({} && NOT EXISTS {{ {} }})"]), [self.expression(1), group])
        return self.expression()

    def target(self) -> str:
        self.fresh += 1
        return f"?x{self.fresh}"

    def group(self, depth: int = 2) -> Node:
        return Node("group", None, [self.element(depth) for _ in range(self.pick([1, 1, 2, 2, 3]))])

    def element(self, depth: int) -> Node:
        if depth == 0 or self.chance(0.45):
            return self.triple()
        group = lambda: self.group(depth - 1)  # noqa: E731
        kind = self.weighted(
            [(5, "OPTIONAL {{ {} }}"), (3, "MINUS {{ {} }}"), (4, "{{ {} }} UNION {{ {} }}"), (2, "{{ {} }}"), (2, "GRAPH ?g {{ {} }}")]
            + [(2, "GRAPH :g0 {{ {} }}"), (8, "FILTER({})"), (3, "BIND"), (2, "VALUES"), (2, "SELECT"), (2, "FILTER EXISTS {{ {} }}")]
            + [(2, "FILTER NOT EXISTS {{ {} }}")]
        )
        if kind == "FILTER({})":
            return Node("element", kind, [self.condition()])
        if kind == "BIND":
            return Node("element", f"BIND({{}} AS {self.target()})", [self.expression()])
        if kind == "VALUES":
            return self.values()
        if kind == "SELECT":
            return Node("element", "{{ {} }}", [self.select(depth - 1)])
        return Node("element", kind, [group() for _ in range(kind.count("{}"))])

    def values(self) -> Node:
        if self.chance(0.6):
            rows = [leaf("value", self.pick(["UNDEF", self.term(), self.term()])) for _ in range(self.random.randrange(1, 4))]
            return Node("element", f"VALUES {self.variable()} {{{{ {{}} }}}}", [Node("values", None, rows)])
        one, other = self.random.sample(VARIABLES, 2)
        term = lambda: self.pick(["UNDEF", self.term(), self.term()])  # noqa: E731
        rows = [leaf("value", f"({term()} {term()})") for _ in range(self.random.randrange(1, 4))]
        return Node("element", f"VALUES ({one} {other}) {{{{ {{}} }}}}", [Node("values", None, rows)])

    # Requests

    def aggregate(self) -> Node:
        inner = leaf("expression", self.variable()) if self.chance(0.7) else self.expression(1)
        distinct = self.pick(["", "", "DISTINCT "])
        if self.chance(0.25):
            return leaf("aggregate", f"COUNT({distinct}*)")
        return Node("aggregate", f"{self.pick(['COUNT', 'COUNT', 'SUM', 'MIN', 'MAX', 'AVG'])}({distinct}{{}})", [inner])

    def select(self, depth: int = 2) -> Node:
        group = self.group(depth)
        kind = self.weighted([(5, "all"), (4, "some"), (4, "aggregate"), (2, "expression")])
        if kind == "all":
            return Node("select", f"SELECT {self.pick(['', '', 'DISTINCT '])}* {{{{ {{}} }}}}", [group])
        if kind == "some":
            names = " ".join(self.random.sample(VARIABLES, self.random.randrange(1, 3)))
            return Node("select", f"SELECT {self.pick(['', 'DISTINCT '])}{names} {{{{ {{}} }}}}", [group])
        if kind == "expression":
            target = self.target()
            return Node("select", f"SELECT {self.variable()} ({{}} AS {target}) {{{{ {{}} }}}}", [self.expression(), group])
        first, second = self.target(), self.target()
        key = self.variable() if self.chance(0.6) else ""
        aggregates = [self.aggregate(), self.aggregate()]
        having = ""
        if key and self.chance(0.3):
            having = " HAVING ({})"
            aggregates.append(Node("expression", self.pick(["({} > 1)", "({} <= 2)", "({} = 1)"]), [leaf("aggregate", "COUNT(*)")]))
        grouping = f" GROUP BY {key}" if key else ""
        form = f"SELECT {key} ({{}} AS {first}) ({{}} AS {second}) {{{{ {{}} }}}}{grouping}{having}"
        return Node("select", form, [*aggregates[:2], group, *aggregates[2:]])

    def query(self) -> Node:
        kind = self.weighted([(12, "select"), (2, "order"), (2, "ask"), (2, "construct"), (1, "limit")])
        if kind == "select":
            return self.select()
        if kind == "order":
            variable = self.variable()
            form = f"SELECT {variable} {{{{ {{}} }}}} ORDER BY {self.pick([variable, f'DESC({variable})'])}"
            return Node("select", form, [self.group()])
        if kind == "limit":
            form = f"SELECT (COUNT(*) AS {self.target()}) {{{{ {{{{ SELECT {self.pick(['', 'DISTINCT '])}* {{{{ {{}} }}}} LIMIT {self.random.randrange(4)} }}}} }}}}"
            return Node("select", form, [self.group()])
        if kind == "ask":
            return Node("ask", "ASK {{ {} }}", [self.group()])
        template = Node("template", None, [self.template() for _ in range(self.random.randrange(1, 3))])
        return Node("construct", "CONSTRUCT {{ {} }} WHERE {{ {} }}", [template, self.group()])

    def template(self) -> Node:
        subject = self.pick([self.variable(), self.variable(), self.iri(), "_:t"])
        return leaf("quad", f"{subject} {self.pick([self.predicate(), self.variable()])} {self.pick([self.variable(), self.term(), '_:t'])} .")

    def quads(self, ground: bool) -> Node:
        """Draws quads of a template, or of data if `ground`."""
        quads = []
        for _ in range(self.random.randrange(1, 4)):
            quad = leaf("quad", f"{self.iri()} {self.predicate()} {self.term()} .") if ground else self.template()
            if self.chance(0.3):
                quad = Node("quad", f"GRAPH {self.pick(GRAPHS)} {{{{ {{}} }}}}", [quad])
            quads.append(quad)
        return Node("quads", None, quads)

    def operation(self) -> Node:
        name = lambda: self.pick([*[f"GRAPH {graph}" for graph in GRAPHS], "DEFAULT"])  # noqa: E731
        kind = self.weighted([(2, "insert"), (3, "delete"), (6, "change"), (2, "where"), (3, "transfer"), (2, "clear")])
        if kind == "insert":
            return Node("operation", "INSERT DATA {{ {} }}", [self.quads(True)])
        if kind == "delete":
            return Node("operation", "DELETE DATA {{ {} }}", [self.quads(True)])
        if kind == "where":
            return Node("operation", "DELETE WHERE {{ {} }}", [Node("group", None, [self.plain_triple() for _ in range(self.pick([1, 2]))])])
        if kind == "transfer":
            return leaf("operation", f"{self.pick(['COPY', 'MOVE', 'ADD'])} SILENT {name()} TO {name()}")
        if kind == "clear":
            where = self.pick([f"GRAPH {self.pick(GRAPHS)}", "DEFAULT", "NAMED", "ALL"])
            return leaf("operation", f"{self.pick(['CLEAR', 'DROP'])} SILENT {where}")
        given = f"WITH {self.pick(GRAPHS)} " if self.chance(0.25) else ""
        using = f"USING {self.pick(GRAPHS)} " if self.chance(0.15) else ""
        parts, children = [], []
        # A template of DELETE has no blank nodes.
        for verb in self.pick([["DELETE"], ["INSERT"], ["DELETE", "INSERT"]]):
            quads = self.quads(False)
            if verb == "DELETE":
                quads = replaced(quads, "_:t", "?a")
            parts.append(f"{verb} {{{{ {{}} }}}}")
            children.append(quads)
        return Node("operation", f"{given}{' '.join(parts)} {using}WHERE {{{{ {{}} }}}}", [*children, self.group()])

    def plain_triple(self) -> Node:
        return leaf("element", f"{self.pick([self.variable(), self.iri()])} {self.predicate()} {self.pick([self.variable(), self.term()])} .")

    def update(self) -> Node:
        return Node("update", None, [Node("step", "{} ;", [self.operation()]) for _ in range(self.pick([1, 1, 2, 3]))])

    def case(self, quads: list[tuple[str, str]]) -> Case:
        self.fresh = 0
        is_update = self.chance(0.2)
        return Case(quads, self.update() if is_update else self.query(), is_update, self.triple_terms > 0)


def replaced(node: Node, old: str, new: str) -> Node:
    form = node.form.replace(old, new) if node.form else None
    return Node(node.sort, form, [replaced(child, old, new) for child in node.children])
