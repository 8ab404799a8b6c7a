//! Landing pages of items with their descriptions for catalogues, and the provider of OAI-PMH.

use super::percent::{decode, decode_path};
use super::query::{Query, unknown_value};
use super::{ApiError, bound_of, failed, principal_of, request_body};
use crate::call::CallState;
use crate::objects::now_nanos;
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use esker_catalogue::{
    Collector, Format, Overrides, Record, croissant, datacite, dcat, landing, oai, schema_org,
    signposting,
};
use esker_model::namespace::resolve;
use esker_model::object::Principal;
use esker_model::{Version, VertexName};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use std::sync::Arc;

/// Number of the call `find`, as which records and harvests are counted: both may take long, and run on the threads for long calls.
const FIND: usize = 26;
/// Path of landing pages.
const RECORDS: &str = "/records/";
/// Media type of the arguments of a harvest by POST.
const FORM: &str = "application/x-www-form-urlencoded";

/// Address of the server's root, ending in `/`: the configured one, else the one by which the client reached it.
fn base(service: &Service, request: &Request<Body>) -> Option<String> {
    if let Some(address) = &service.settings.catalogue.address {
        return Some(format!("{}/", address.trim_end_matches('/')));
    }
    let authority = request.uri().authority().map(|a| a.as_str().to_owned());
    let host = || {
        let host = request.headers().get(header::HOST)?.to_str().ok()?;
        host.parse::<http::uri::Authority>().ok()?;
        Some(host.to_owned())
    };
    let authority = authority.or_else(host)?;
    let scheme = if service.settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    Some(format!("{scheme}://{authority}/"))
}

/// Chooses the format of a record by the parameter `format`, else by the header `Accept`.
fn format_of(request: &Request<Body>) -> Result<Format, ApiError> {
    let query = Query::parse(request.uri().query(), &["format"])?;
    if let Some(name) = query.get("format") {
        let names = Format::ALL.map(Format::name);
        return Format::of_name(name)
            .ok_or_else(|| ApiError::bad(unknown_value("format", name, &names)));
    }
    let accept: Vec<&str> = request
        .headers()
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    Format::negotiate(&accept.join(",")).ok_or_else(|| {
        let types: Vec<String> = Format::ALL.map(Format::content_type).into();
        ApiError::Status(
            StatusCode::NOT_ACCEPTABLE,
            format!("a record is available as {}", types.join(", ")),
        )
    })
}

fn text_of(record: &Record, format: Format) -> String {
    match format {
        Format::Html => landing::page(record),
        Format::Datacite => pretty(&datacite::json(record)),
        Format::DataciteXml => datacite::xml(record),
        Format::SchemaOrg => pretty(&schema_org::json(record)),
        Format::Croissant => pretty(&croissant::json(record)),
        Format::Dcat => pretty(&dcat::json(record)),
        Format::Linkset => pretty(&signposting::linkset(record)),
        Format::LinksetText => signposting::linkset_text(record),
    }
}

fn pretty(json: &serde_json::Value) -> String {
    format!("{json:#}\n")
}

/// Reads the record of a vertex and formats it; returns its text and the header `Link`.
fn read(
    (service, call_state): (&Service, &CallState),
    principal: Option<&Principal>,
    name: &str,
    (base, format): (Option<&str>, Format),
) -> Result<(String, Option<String>), ApiError> {
    let name = VertexName::parse(name)?;
    let graph = service.graph_as(principal);
    let names = service.names_now();
    let schema = graph.schema()?;
    let found = resolve(&*names, principal, &schema, std::slice::from_ref(&name))?;
    let vertex = match found.first() {
        Some(vertex) => *vertex,
        None => name.resolve(&schema)?,
    };
    let collector = Collector {
        graph: &*graph,
        names: &*names,
        principal,
        base,
        overrides: &Overrides::default(),
        cancel: call_state,
    };
    let Some(record) = collector.collect(&name, vertex)? else {
        let read = graph.read_vertices(&[vertex.id], Version::MAX)?;
        if let Some(gone) = read.into_iter().flatten().find(|v| v.deleted) {
            let message = format!("`{name}` was deleted at {}", gone.version);
            return Err(ApiError::Status(StatusCode::GONE, message));
        }
        return Err(ApiError::missing(format!("no vertex or file `{name}`")));
    };
    let links = signposting::header(&record, format);
    Ok((text_of(&record, format), links))
}

async fn answer_record(
    service: Arc<Service>,
    request: Request<Body>,
) -> Result<Response<Body>, Response<Body>> {
    let bound = bound_of(&request)?;
    let principal = principal_of(&bound, Ok(None)).map_err(|e| e.response())?;
    let format = format_of(&request).map_err(|e| e.response())?;
    let path = request.uri().path();
    let name = path.strip_prefix(RECORDS).and_then(decode_path);
    let name = name.ok_or_else(|| {
        ApiError::bad(format!("`{path}`: expected UTF-8 with %XX in the path")).response()
    })?;
    let base = base(&service, &request);
    let work = move |service: &Service, call_state: &CallState| {
        let place = (base.as_deref(), format);
        read((service, call_state), principal.as_ref(), &name, place)
    };
    let done = service.work(FIND, work).await;
    let (text, links) = done
        .map_err(|e| failed(&e))?
        .map_err(|e: ApiError| e.response())?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    if let Ok(kind) = HeaderValue::from_str(&format.content_type()) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    if let Some(links) = links.and_then(|links| HeaderValue::from_str(&links).ok()) {
        headers.insert(header::LINK, links);
    }
    if format == Format::Html {
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(landing::POLICY),
        );
        headers.insert(
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        );
    }
    Ok(response)
}

/// Answers the request `GET /records/{name}`.
pub(super) async fn record(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    service.metrics.http.add(1);
    let (Ok(response) | Err(response)) = answer_record(service, request).await;
    response
}

/// Decodes the arguments of a harvest. One that is not encoded keeps its text as name, which no verb has.
fn arguments(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match (decode(name), decode(value)) {
            (Some(name), Some(value)) => (name, value),
            _ => (part.to_owned(), String::new()),
        }
    });
    pairs.collect()
}

async fn answer_harvest(
    service: Arc<Service>,
    request: Request<Body>,
) -> Result<Response<Body>, Response<Body>> {
    let bound = bound_of(&request)?;
    let principal = principal_of(&bound, Ok(None)).map_err(|e| e.response())?;
    let base = base(&service, &request).ok_or_else(|| {
        ApiError::bad("the header `Host` is missing; or set `catalogue.address`".into()).response()
    })?;
    let given = if request.method() == Method::POST {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let name = kind.split(';').next().unwrap_or_default().trim();
        if !name.eq_ignore_ascii_case(FORM) {
            let message = format!("send the arguments with the header `Content-Type: {FORM}`");
            return Err(ApiError::Status(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).response());
        }
        arguments(&request_body::text(&service, request).await?)
    } else {
        arguments(request.uri().query().unwrap_or_default())
    };
    let work = move |service: &Service, call_state: &CallState| {
        let settings = &service.settings.catalogue;
        let host = oai::host_of(&base);
        let settings = oai::Settings {
            address: format!("{base}oai"),
            name: settings.name.clone(),
            admin: settings.admin.clone().unwrap_or_else(|| {
                // The protocol demands an address whose host name has a dot.
                let dot = if host.contains('.') {
                    ""
                } else {
                    ".localdomain"
                };
                format!("root@{host}{dot}")
            }),
            host,
            filter: settings.filter.clone(),
            page: settings.page,
        };
        let graph = service.graph_as(principal.as_ref());
        let names = service.names_now();
        let provider = oai::Provider {
            collector: Collector {
                graph: &*graph,
                names: &*names,
                principal: principal.as_ref(),
                base: Some(&base),
                overrides: &Overrides::default(),
                cancel: call_state,
            },
            settings: &settings,
            now: now_nanos().unwrap_or_default(),
        };
        provider.answer(&given)
    };
    let done = service.work(FIND, work).await.map_err(|e| failed(&e))?;
    let text = done.map_err(|e| ApiError::from(e).response())?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/xml; charset=utf-8"),
    );
    Ok(response)
}

/// Answers the requests `GET` and `POST /oai`.
pub(super) async fn harvest(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    service.metrics.http.add(1);
    let (Ok(response) | Err(response)) = answer_harvest(service, request).await;
    response
}
