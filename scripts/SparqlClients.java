// Apache Jena's remote connection against a server: SPARQL both ways of posting, all formats of answers, updates, graphs.
// Run by scripts/check-sparql-clients-long.sh as `java -cp JARS SparqlClients.java URL`.

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

    static void same(Object got, Object expected, String what) {
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
            same(names(QueryExecutionHTTP.service(sparql).sendMode(mode).query(select).build()), expected, mode.toString());
        }
        for (String type : List.of("application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/tab-separated-values")) {
            same(names(QueryExecutionHTTP.service(sparql).acceptHeader(type).query(select).build()), expected, type);
        }

        try (RDFConnection c = RDFConnectionRemote.newBuilder()
                .queryEndpoint(sparql).updateEndpoint(sparql).gspEndpoint(server + "/rdf-graphs").build()) {
            same(c.queryAsk("ASK { ?s ?p 'Ada asPost' }"), true, "ASK");
            same(c.queryConstruct("CONSTRUCT WHERE { ?s ?p ?o }").size(), 2L, "CONSTRUCT");
            same(c.queryDescribe("DESCRIBE <" + EX + "ada>").size(), 2L, "DESCRIBE");
            for (Lang lang : List.of(Lang.TURTLE, Lang.NTRIPLES, Lang.RDFXML, Lang.JSONLD)) {
                Model got = QueryExecutionHTTP.service(sparql).acceptHeader(lang.getHeaderString())
                    .query("CONSTRUCT WHERE { ?s ?p ?o }").build().execConstruct();
                same(got.size(), 2L, lang.getName());
            }

            Model model = ModelFactory.createDefaultModel();
            Resource bob = model.createResource(EX + "bob");
            bob.addProperty(model.createProperty(EX, "name"), "Bob \"quoted\"\nin two lines", "en");
            bob.addLiteral(model.createProperty(EX, "age"), 36);
            bob.addProperty(model.createProperty(EX, "knows"), model.createResource().addProperty(model.createProperty(EX, "name"), "nobody"));
            c.put(EX + "g", model);
            same(c.fetch(EX + "g").isIsomorphicWith(model), true, "a graph put and fetched");
            c.load(EX + "g", model.createResource(EX + "carol").addLiteral(model.createProperty(EX, "age"), 7).getModel());
            same(c.fetch(EX + "g").contains(model.createResource(EX + "carol"), null), true, "a graph posted");
            c.put(model);
            same(c.fetch().isIsomorphicWith(model), true, "the default graph put and fetched");
            c.delete(EX + "g");
            try {
                c.fetch(EX + "g");
                same(true, false, "a graph that was deleted was fetched");
            } catch (HttpException e) {
                same(e.getStatusCode(), 404, "a graph that was deleted");
            }
            c.update("DELETE WHERE { ?s ?p ?o } ; INSERT DATA { <a:b> <a:c> 1 }");
            same(c.queryAsk("ASK { ?s <a:c> 1 }"), true, "two updates in one");
            same(c.fetch().size(), 1L, "what two updates left");
        }
        try {
            names(QueryExecutionHTTP.service(sparql).queryString("SELECT ?n { ?s ?p }").build());
            same(true, false, "a wrong query passed");
        } catch (QueryExceptionHTTP e) {
            same(e.getStatusCode(), 400, "a wrong query");
            same(e.getResponse().contains("line 1, column"), true, "where a query is wrong: " + e.getResponse());
        }
        System.out.println("Jena's remote connection works");
    }
}
