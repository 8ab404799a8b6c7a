//! Description of the endpoint in RDF (SPARQL 1.1 Service Description).

use super::plain::text_response;
use super::{SparqlRequest, SparqlResult, accept};
use axum::body::Body;
use esker::rdf::engine::parse::Loader;
use esker::rdf::engine::{Dataset, RdfFormat, dump};
use http::{HeaderValue, Response, StatusCode, header};

const PREFIXES: &str = "@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .\n\
     @prefix formats: <http://www.w3.org/ns/formats/> .\n";

/// The description; `ENDPOINT` is replaced by the endpoint's IRI.
const ABOUT: &str = "[] a sd:Service ;\n    sd:endpoint <ENDPOINT> ;\n    \
     sd:supportedLanguage sd:SPARQL10Query, sd:SPARQL11Query, sd:SPARQL11Update ;\n    \
     sd:feature sd:BasicFederatedQuery ;\n    \
     sd:resultFormat formats:SPARQL_Results_JSON, formats:SPARQL_Results_XML, formats:SPARQL_Results_CSV, \
     formats:SPARQL_Results_TSV, formats:Turtle, formats:N-Triples, formats:RDF_XML, formats:JSON-LD ;\n    \
     sd:inputFormat formats:Turtle, formats:N-Triples, formats:RDF_XML, formats:JSON-LD ;\n    \
     sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] .\n";

pub(super) fn service(request: &SparqlRequest) -> SparqlResult {
    let (format, content_type) = accept::graphs(&request.accept())
        .map_err(|message| text_response(StatusCode::NOT_ACCEPTABLE, &message))?;
    let scheme = if request.service.settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let endpoint = format!("{scheme}://{}/sparql", request.host);
    let endpoint = if esker::rdf::engine::check_iri(&endpoint).is_ok() {
        endpoint
    } else {
        "http://localhost/sparql".into()
    };
    let text = format!("{PREFIXES}{}", ABOUT.replace("ENDPOINT", &endpoint));
    let body = match format {
        RdfFormat::Turtle => text.into_bytes(),
        format => written(&text, format)
            .map_err(|message| text_response(StatusCode::INTERNAL_SERVER_ERROR, &message))?,
    };
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn written(text: &str, format: RdfFormat) -> Result<Vec<u8>, String> {
    let mut loader = Loader::new(Dataset::default(), "s", false);
    loader
        .read("about", &mut text.as_bytes(), RdfFormat::Turtle, None, None)
        .map_err(|e| e.to_string())?;
    let (data, _) = loader.finish();
    let mut to = Vec::new();
    dump(&data, None, format, &mut to).map_err(|e| e.to_string())?;
    Ok(to)
}
