import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.jena.query.ARQ;
import org.apache.jena.query.Dataset;
import org.apache.jena.query.DatasetFactory;
import org.apache.jena.query.Query;
import org.apache.jena.query.QueryExecution;
import org.apache.jena.query.QueryFactory;
import org.apache.jena.query.ResultSetFormatter;
import org.apache.jena.query.Syntax;
import org.apache.jena.riot.Lang;
import org.apache.jena.riot.RDFDataMgr;
import org.apache.jena.riot.RDFParser;
import org.apache.jena.riot.system.ErrorHandlerFactory;
import org.apache.jena.update.UpdateExecution;
import org.apache.jena.update.UpdateFactory;

/** Answers requests for scripts/sparql-check.py: a line with kind and number of bytes, then the bytes; answers have the same form. */
public class JenaCases {
    public static void main(String[] arguments) throws IOException {
        DataInputStream from = new DataInputStream(new java.io.BufferedInputStream(System.in));
        DataOutputStream to = new DataOutputStream(new java.io.BufferedOutputStream(System.out));
        ErrorHandlerFactory.setDefaultErrorHandler(ErrorHandlerFactory.errorHandlerNoLogging);
        Dataset data = DatasetFactory.createTxnMem();
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int c; (c = from.read()) >= 0; ) {
            if (c != '\n') {
                line.write(c);
                continue;
            }
            String[] head = line.toString(StandardCharsets.UTF_8).split(" ");
            line.reset();
            byte[] body = new byte[Integer.parseInt(head[1])];
            from.readFully(body);
            String text = new String(body, StandardCharsets.UTF_8);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            String kind;
            try {
                if (head[0].equals("load")) {
                    data = DatasetFactory.createTxnMem();
                    RDFParser.fromString(text, Lang.TRIG).parse(data);
                    kind = "done";
                } else if (head[0].equals("update")) {
                    UpdateExecution.dataset(data).update(UpdateFactory.create(text, Syntax.syntaxSPARQL_11)).execute();
                    kind = "done";
                } else {
                    kind = answer(data, text, out);
                }
            } catch (Throwable e) {
                kind = "error";
                out.reset();
                out.write(String.valueOf(e).getBytes(StandardCharsets.UTF_8));
            }
            to.write((kind + " " + out.size() + "\n").getBytes(StandardCharsets.UTF_8));
            out.writeTo(to);
            to.flush();
        }
    }

    private static String answer(Dataset data, String text, ByteArrayOutputStream out) {
        Query query = QueryFactory.create(text, Syntax.syntaxSPARQL_11);
        try (QueryExecution execution = QueryExecution.dataset(data).query(query).timeout(60, TimeUnit.SECONDS).build()) {
            if (query.isAskType()) {
                ResultSetFormatter.outputAsJSON(out, execution.execAsk());
                return "boolean";
            }
            if (query.isConstructType()) {
                RDFDataMgr.write(out, execution.execConstruct(), Lang.NTRIPLES);
                return "triples";
            }
            ResultSetFormatter.outputAsJSON(out, execution.execSelect());
            return "rows";
        }
    }
}
