"""Runs the operations of SPARQLWrapper and of rdflib's stores against a server."""

import sys

from rdflib import Dataset, Graph, Literal, Namespace, URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from SPARQLWrapper import CSV, JSON, POST, POSTDIRECTLY, RDFXML, TSV, TURTLE, URLENCODED, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

server = sys.argv[1]
endpoint = server + "/sparql"
EX = Namespace("http://example.org/")


def expect_equal(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: expected {expected!r}, got {got!r}")


def wrapper(text, method=None, how=None, result=None):
    client = SPARQLWrapper(endpoint)
    client.setQuery(text)
    if method:
        client.setMethod(method)
    if how:
        client.setRequestMethod(how)
    if result:
        client.setReturnFormat(result)
    return client.query()


# SPARQLWrapper sends updates and queries, by both kinds of POST and in all formats.
for how in (URLENCODED, POSTDIRECTLY):
    wrapper(f"INSERT DATA {{ <{EX.ada}> <{EX.name}> 'Ada', '{how}' }}", POST, how)
select = f"SELECT ?n {{ <{EX.ada}> <{EX.name}> ?n }} ORDER BY ?n"
names = ["Ada", "postdirectly", "urlencoded"]
for method, how in ((None, None), (POST, URLENCODED), (POST, POSTDIRECTLY)):
    rows = wrapper(select, method, how, JSON).convert()["results"]["bindings"]
    expect_equal([r["n"]["value"] for r in rows], names, "JSON")
document = wrapper(select, result=XML).convert()
expect_equal([n.firstChild.data for n in document.getElementsByTagName("literal")], names, "XML")
expect_equal(wrapper(select, result=CSV).convert().decode().split(), ["n", *names], "CSV")
expect_equal(wrapper(select, result=TSV).convert().decode().split("\n")[1], '"Ada"', "TSV")
expect_equal(wrapper("ASK { ?s ?p ?o }", result=JSON).convert()["boolean"], True, "ASK")
construct = "CONSTRUCT WHERE { ?s ?p ?o }"
expect_equal(len(wrapper(construct, result=RDFXML).convert()), 3, "RDF/XML")
expect_equal(len(Graph().parse(wrapper(construct, result=TURTLE).convert(), format="turtle")), 3, "Turtle")
try:
    wrapper("SELECT * { ?s ?p }", result=JSON)
    sys.exit("a malformed query was accepted")
except QueryBadFormed as e:
    assert b"line 1, column" in e.args[0].encode(), e

# rdflib reads through SPARQLStore.
graph = Graph(SPARQLStore(endpoint))
expect_equal(len(graph), 3, "the size of a graph")
expect_equal(sorted(str(o) for o in graph.objects(EX.ada, EX.name)), names, "objects")
expect_equal((EX.ada, EX.name, Literal("Ada")) in graph, True, "a triple")
expect_equal(bool(graph.query(f"ASK {{ <{EX.ada}> <{EX.name}> 'Ada' }}").askAnswer), True, "ASK")
expect_equal([str(r.n) for r in graph.query(select)], names, "SELECT")
expect_equal(len(graph.query(construct).graph), 3, "CONSTRUCT")

# rdflib writes through SPARQLUpdateStore.
store = SPARQLUpdateStore(endpoint, endpoint)
data = Dataset(store, default_union=False)
people = data.graph(URIRef("http://example.org/people"))
for n in range(10):
    people.add((EX[f"p{n}"], EX.age, Literal(n)))
people.add((EX.p0, EX.name, Literal("Zoë \"quoted\"\n", lang="en")))
expect_equal(len(people), 11, "a named graph")
expect_equal(str(people.value(EX.p0, EX.name)), 'Zoë "quoted"\n', "a literal")
people.remove((EX.p1, None, None))
expect_equal(len(people), 10, "after a removal")
people.set((EX.p2, EX.age, Literal(99)))
expect_equal(people.value(EX.p2, EX.age).toPython(), 99, "a value that was set")
people.update(f"DELETE WHERE {{ <{EX.p3}> ?p ?o }}")
expect_equal(len(people), 9, "after an update of the graph")
expect_equal(len(Graph(store)), 3, "the default graph")

# rdflib reads and removes whole graphs by the Graph Store Protocol.
whole = f"{server}/rdf-graphs?graph=http://example.org/people"
expect_equal(len(Graph().parse(whole)), 9, "a graph by its URL")
data.remove_graph(people)
expect_equal(len(people), 0, "a graph that was removed")
print("SPARQLWrapper, rdflib SPARQLStore and SPARQLUpdateStore work")
