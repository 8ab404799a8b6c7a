// Tests Apache Jena's remote connection against a server: queries, updates and graphs, by both kinds of POST and in all result formats.
// scripts/check-sparql-clients-long.sh calls it as `java -cp JARS SparqlClients.java URL`.

import java.util.ArrayList;
import java.util.List;
import org.apache.jena.atlas.web.HttpException;
import org.apache.jena.query.QuerySolution;
import org.apache.jena.rdf.model.Model;
import org.apache.jena.rdf.model.ModelFactory;
import org.apache.jena.rdf.model.Resource;
import org.apache.jena.rdfconnection.RDFConnection;
import org.apache.jena.rdfconnection.RDFConnectionRemote;
import org.apache.jena.riot.Lang;
import org.apache.jena.sparql.engine.http.QueryExceptionHTTP;
import org.apache.jena.sparql.exec.http.QueryExecutionHTTP;
import org.apache.jena.sparql.exec.http.QuerySendMode;
import org.apache.jena.sparql.exec.http.UpdateExecutionHTTP;
import org.apache.jena.sparql.exec.http.UpdateSendMode;

public class SparqlClients {
    static final String EX = "http://example.org/";

    static void expectEqual(Object got, Object expected, String what) {
        if (!expected.equals(got)) {
            System.err.println(what + ": expected " + expected + ", got " + got);
            System.exit(1);
        }
    }

    static List<String> names(QueryExecutionHTTP query) {
        List<String> names = new ArrayList<>();
        try (query) {
            query.execSelect().forEachRemaining((QuerySolution row) -> names.add(row.getLiteral("n").getString()));
        }
        return names;
    }

    public static void main(String[] args) {
        String server = args[0];
        String sparql = server + "/sparql";
        for (UpdateSendMode mode : UpdateSendMode.values()) {
            UpdateExecutionHTTP.service(sparql).sendMode(mode)
                .update("INSERT DATA { <" + EX + "ada> <" + EX + "name> 'Ada " + mode + "' }").build().execute();
        }
        List<String> expected = List.of("Ada asPost", "Ada asPostForm");
        String select = "SELECT ?n { <" + EX + "ada> <" + EX + "name> ?n } ORDER BY ?n";
        for (QuerySendMode mode : QuerySendMode.values()) {
            expectEqual(names(QueryExecutionHTTP.service(sparql).sendMode(mode).query(select).build()), expected, mode.toString());
        }
        for (String type : List.of("application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/tab-separated-values")) {
            expectEqual(names(QueryExecutionHTTP.service(sparql).acceptHeader(type).query(select).build()), expected, type);
        }

        try (RDFConnection c = RDFConnectionRemote.newBuilder()
                .queryEndpoint(sparql).updateEndpoint(sparql).gspEndpoint(server + "/rdf-graphs").build()) {
            expectEqual(c.queryAsk("ASK { ?s ?p 'Ada asPost' }"), true, "ASK");
            expectEqual(c.queryConstruct("CONSTRUCT WHERE { ?s ?p ?o }").size(), 2L, "CONSTRUCT");
            expectEqual(c.queryDescribe("DESCRIBE <" + EX + "ada>").size(), 2L, "DESCRIBE");
            for (Lang lang : List.of(Lang.TURTLE, Lang.NTRIPLES, Lang.RDFXML, Lang.JSONLD)) {
                Model got = QueryExecutionHTTP.service(sparql).acceptHeader(lang.getHeaderString())
                    .query("CONSTRUCT WHERE { ?s ?p ?o }").build().execConstruct();
                expectEqual(got.size(), 2L, lang.getName());
            }

            Model model = ModelFactory.createDefaultModel();
            Resource bob = model.createResource(EX + "bob");
            bob.addProperty(model.createProperty(EX, "name"), "Bob \"quoted\"\nin two lines", "en");
            bob.addLiteral(model.createProperty(EX, "age"), 36);
            bob.addProperty(model.createProperty(EX, "knows"), model.createResource().addProperty(model.createProperty(EX, "name"), "nobody"));
            c.put(EX + "g", model);
            expectEqual(c.fetch(EX + "g").isIsomorphicWith(model), true, "a graph put and fetched");
            c.load(EX + "g", model.createResource(EX + "carol").addLiteral(model.createProperty(EX, "age"), 7).getModel());
            expectEqual(c.fetch(EX + "g").contains(model.createResource(EX + "carol"), null), true, "a graph posted");
            c.put(model);
            expectEqual(c.fetch().isIsomorphicWith(model), true, "the default graph put and fetched");
            c.delete(EX + "g");
            try {
                c.fetch(EX + "g");
                expectEqual(true, false, "a graph that was deleted was fetched");
            } catch (HttpException e) {
                expectEqual(e.getStatusCode(), 404, "a graph that was deleted");
            }
            c.update("DELETE WHERE { ?s ?p ?o } ; INSERT DATA { <a:b> <a:c> 1 }");
            expectEqual(c.queryAsk("ASK { ?s <a:c> 1 }"), true, "two updates in one");
            expectEqual(c.fetch().size(), 1L, "what two updates left");
        }
        try {
            names(QueryExecutionHTTP.service(sparql).queryString("SELECT ?n { ?s ?p }").build());
            expectEqual(true, false, "a malformed query was accepted");
        } catch (QueryExceptionHTTP e) {
            expectEqual(e.getStatusCode(), 400, "a malformed query");
            expectEqual(e.getResponse().contains("line 1, column"), true, "the position of the error: " + e.getResponse());
        }
        System.out.println("Jena's remote connection works");
    }
}
