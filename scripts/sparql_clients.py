"""SPARQLWrapper and rdflib against a server's SPARQL: all that they do by themselves works."""

import sys

from rdflib import Dataset, Graph, Literal, Namespace, URIRef
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from SPARQLWrapper import CSV, JSON, POST, POSTDIRECTLY, RDFXML, TSV, TURTLE, URLENCODED, XML, SPARQLWrapper
from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

server = sys.argv[1]
endpoint = server + "/sparql"
EX = Namespace("http://example.org/")


def same(got, expected, what):
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


# SPARQLWrapper: updates and queries, both ways of posting, all formats.
for how in (URLENCODED, POSTDIRECTLY):
    wrapper(f"INSERT DATA {{ <{EX.ada}> <{EX.name}> 'Ada', '{how}' }}", POST, how)
select = f"SELECT ?n {{ <{EX.ada}> <{EX.name}> ?n }} ORDER BY ?n"
names = ["Ada", "postdirectly", "urlencoded"]
for method, how in ((None, None), (POST, URLENCODED), (POST, POSTDIRECTLY)):
    rows = wrapper(select, method, how, JSON).convert()["results"]["bindings"]
    same([r["n"]["value"] for r in rows], names, "JSON")
document = wrapper(select, result=XML).convert()
same([n.firstChild.data for n in document.getElementsByTagName("literal")], names, "XML")
same(wrapper(select, result=CSV).convert().decode().split(), ["n", *names], "CSV")
same(wrapper(select, result=TSV).convert().decode().split("\n")[1], '"Ada"', "TSV")
same(wrapper("ASK { ?s ?p ?o }", result=JSON).convert()["boolean"], True, "ASK")
construct = "CONSTRUCT WHERE { ?s ?p ?o }"
same(len(wrapper(construct, result=RDFXML).convert()), 3, "RDF/XML")
same(len(Graph().parse(wrapper(construct, result=TURTLE).convert(), format="turtle")), 3, "Turtle")
try:
    wrapper("SELECT * { ?s ?p }", result=JSON)
    sys.exit("a wrong query passed")
except QueryBadFormed as e:
    assert b"line 1, column" in e.args[0].encode(), e

# rdflib, reading.
graph = Graph(SPARQLStore(endpoint))
same(len(graph), 3, "the size of a graph")
same(sorted(str(o) for o in graph.objects(EX.ada, EX.name)), names, "objects")
same((EX.ada, EX.name, Literal("Ada")) in graph, True, "a triple")
same(bool(graph.query(f"ASK {{ <{EX.ada}> <{EX.name}> 'Ada' }}").askAnswer), True, "ASK")
same([str(r.n) for r in graph.query(select)], names, "SELECT")
same(len(graph.query(construct).graph), 3, "CONSTRUCT")

# rdflib, writing.
store = SPARQLUpdateStore(endpoint, endpoint)
data = Dataset(store, default_union=False)
people = data.graph(URIRef("http://example.org/people"))
for n in range(10):
    people.add((EX[f"p{n}"], EX.age, Literal(n)))
people.add((EX.p0, EX.name, Literal("Zoë \"quoted\"\n", lang="en")))
same(len(people), 11, "a named graph")
same(str(people.value(EX.p0, EX.name)), 'Zoë "quoted"\n', "a literal")
people.remove((EX.p1, None, None))
same(len(people), 10, "after a removal")
people.set((EX.p2, EX.age, Literal(99)))
same(people.value(EX.p2, EX.age).toPython(), 99, "a value that was set")
people.update(f"DELETE WHERE {{ <{EX.p3}> ?p ?o }}")
same(len(people), 9, "after an update of the graph")
same(len(Graph(store)), 3, "the default graph")

# Whole graphs.
whole = f"{server}/rdf-graphs?graph=http://example.org/people"
same(len(Graph().parse(whole)), 9, "a graph by its URL")
data.remove_graph(people)
same(len(people), 0, "a graph that was removed")
print("SPARQLWrapper, rdflib SPARQLStore and SPARQLUpdateStore: as they should")
