"""Differential test of SPARQL: random requests to Esker over HTTP, to Oxigraph and to Apache Jena."""
