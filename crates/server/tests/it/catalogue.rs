//! Landing pages, their formats, and harvests by OAI-PMH.

use crate::common::{Served, filled, http_by_token, settings};
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_server::Settings;
use esker_server::settings::Catalogue;
use esker_testkit::wait::wait_until;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Creates objects; every third is private to user 1001. Returns their numbers.
fn objects(served: &Served, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for step in 0..count {
        let mode = if step % 3 == 0 { 0o600 } else { 0o644 };
        let app = if step % 2 == 0 { "vpic" } else { "a b" };
        let new = json!({
            "name": "energy", "app": app, "owner": 1001, "step": step, "attributes": {"mode": mode},
            "tags": {"title": format!("Energy <{step}>"), "license": "CC-BY-4.0", "doi": format!("10.5072/{step}")},
        });
        let (status, created) = served.json("POST", "/api/v1/objects", &new.to_string());
        assert_eq!(status, 200, "{created}");
        ids.push(created["id"].as_str().unwrap().to_owned());
    }
    ids
}

fn token_of(served: &Served, principal: &str) -> String {
    let rights = TokenRights::new(Role::Read, Some(principal)).unwrap();
    let token = grants::make_token(&served.folder(), &rights, 3_600, "portal").unwrap();
    wait_until("the token gives no access", || {
        let request = ("GET", "/api/v1/schema", "");
        http_by_token(served.server.address(), request, &token).0 == 200
    });
    token
}

/// Text between two tags, for each pair.
fn elements<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = xml.split(begin.as_str()).skip(1);
    parts
        .filter_map(|part| part.split(end.as_str()).next())
        .collect()
}

/// Token of the next page; `None` on the last one.
fn next_page(xml: &str) -> Option<&str> {
    let rest = xml.split("<resumptionToken cursor=\"").nth(1)?;
    let text = rest.split_once("\">")?.1.split('<').next()?;
    Some(text).filter(|text| !text.is_empty())
}

/// Harvests all pages; returns the identifiers with whether each was deleted, and the number of pages.
fn harvest(get: impl Fn(&str) -> String, first: &str) -> (BTreeMap<String, bool>, usize) {
    let mut found = BTreeMap::new();
    let (mut query, mut pages) = (first.to_owned(), 0);
    loop {
        let xml = get(&format!("/oai?verb=ListIdentifiers&{query}"));
        pages += 1;
        for header in xml.split("<header").skip(1) {
            let id = elements(header, "identifier")[0].to_owned();
            let deleted = header.starts_with(" status=\"deleted\"");
            assert_eq!(found.insert(id, deleted), None, "each object once: {xml}");
        }
        match next_page(&xml) {
            Some(token) => query = format!("resumptionToken={token}"),
            None => return (found, pages),
        }
    }
}

#[test]
fn a_page_leads_to_all_formats() {
    let served = Served::start(settings());
    drop(filled(&served));
    let (status, head, page) = served.http("GET", "/records/file:/out", "");
    assert_eq!(status, 200, "{page}");
    assert!(
        head.contains("content-type: text/html; charset=utf-8"),
        "{head}"
    );
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(head.contains("rel=\"cite-as\""), "{head}");
    assert!(page.contains("<h1>out</h1>"), "{page}");
    assert!(
        page.contains("href=\"http://localhost/records/file:/in\""),
        "{page}"
    );
    // HEAD has the same links and no body.
    let (status, same, body) = served.http("HEAD", "/records/file:/out", "");
    assert_eq!((status, body.as_str()), (200, ""));
    let links = |head: &str| {
        head.lines()
            .find(|l| l.starts_with("link: "))
            .map(str::to_owned)
    };
    assert_eq!(links(&head), links(&same));
    for (format, kind) in [
        ("datacite", "application/vnd.datacite.datacite+json"),
        ("datacite-xml", "application/vnd.datacite.datacite+xml"),
        (
            "schema-org",
            "application/ld+json; profile=\"https://schema.org/\"",
        ),
        (
            "croissant",
            "application/ld+json; profile=\"http://mlcommons.org/croissant/1.0\"",
        ),
        (
            "dcat",
            "application/ld+json; profile=\"http://data.europa.eu/r5r/\"",
        ),
        ("linkset", "application/linkset+json"),
        ("linkset-text", "application/linkset"),
    ] {
        let path = format!("/records/file:/out?format={format}");
        let (status, head, body) = served.http("GET", &path, "");
        assert_eq!(status, 200, "{body}");
        assert!(
            head.contains(&format!("content-type: {kind}\r\n")),
            "{head}"
        );
        assert!(
            body.contains("http://localhost/records/file:/out"),
            "{format}: {body}"
        );
        assert_eq!(
            serde_json::from_str::<Json>(&body).is_ok(),
            !matches!(format, "datacite-xml" | "linkset-text"),
            "{format}"
        );
    }
    let (status, run) = served.json("GET", "/records/job:1?format=schema-org", "");
    assert_eq!(status, 200, "{run}");
    assert_eq!(
        run["distribution"][0]["url"],
        "http://localhost/records/file:/out"
    );
    assert_eq!(run["isBasedOn"][0]["name"], "in");
    assert_eq!(run["@reverse"]["result"][0]["agent"][0]["name"], "ada");
}

/// The outputs of a run are those of its parts, too; a file that one part writes for another is no source.
#[test]
fn a_run_has_the_outputs_of_its_parts() {
    let served = Served::start(settings());
    let lines: Vec<String> = [
        ("execution:step1", "belongs", "execution:flow"),
        ("execution:step2", "belongs", "execution:flow"),
        ("execution:step1", "read", "file:/in"),
        ("execution:step1", "write", "file:/between"),
        ("execution:step2", "read", "file:/between"),
        ("execution:step2", "write", "file:/result"),
    ]
    .iter()
    .flat_map(|(source, edge, destination)| {
        [
            json!({"op": "put_vertex", "id": source}),
            json!({"op": "put_vertex", "id": destination}),
            json!({"op": "put_edge", "src": source, "type": edge, "dst": destination}),
        ]
    })
    .map(|line| line.to_string())
    .collect();
    let (status, done) = served.json("POST", "/api/v1/apply", &lines.join("\n"));
    assert_eq!(status, 200, "{done}");
    let (status, flow) = served.json("GET", "/records/execution:flow?format=schema-org", "");
    assert_eq!(status, 200, "{flow}");
    let names = |key: &str| -> Vec<&str> {
        let all = flow[key].as_array().unwrap().iter();
        all.map(|one| one["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names("distribution"), ["between", "result"]);
    assert_eq!(names("isBasedOn"), ["in"]);
}

#[test]
fn wrong_requests_for_a_page_are_refused() {
    let served = Served::start(settings());
    drop(filled(&served));
    for (path, expected, text) in [
        (
            "/records/file:/nowhere",
            404,
            "no vertex or file `file:/nowhere`",
        ),
        ("/records/nothing", 400, "there is no colon"),
        ("/records/file:/%ff", 400, "expected UTF-8 with %XX"),
        (
            "/records/file:/out?format=bibtex",
            400,
            "unknown value `bibtex`",
        ),
        ("/records/file:/out?as=1", 400, "unknown parameter `as`"),
        ("/records/", 404, "there is nothing at"),
    ] {
        let (status, _, body) = served.http("GET", path, "");
        assert_eq!(status, expected, "{path}: {body}");
        assert!(body.contains(text), "{path}: {body}");
    }
    let (status, _, body) = served.http("DELETE", "/records/file:/out", "");
    assert_eq!(status, 405, "{body}");
    let (status, _, body) = served.http("POST", "/oai", "verb=Identify");
    assert_eq!(status, 415, "{body}");
}

#[test]
fn a_harvest_has_each_object_once_with_deleted_ones() {
    let catalogue = Catalogue {
        address: Some("https://data.example.org".into()),
        admin: Some("data@example.org".into()),
        page: 3,
        ..Catalogue::default()
    };
    let served = Served::start(Settings {
        catalogue,
        ..settings()
    });
    let get = |path: &str| served.http("GET", path, "").2;
    let none = get("/oai?verb=ListIdentifiers&metadataPrefix=oai_dc");
    assert!(none.contains("<error code=\"noRecordsMatch\">"), "{none}");
    assert!(get("/oai?verb=ListSets").contains("noSetHierarchy"));
    let ids = objects(&served, 8);
    let (status, deleted) = served.json("DELETE", &format!("/api/v1/objects/{}", ids[5]), "");
    assert_eq!(status, 200, "{deleted}");
    let expected: BTreeMap<String, bool> = ids
        .iter()
        .map(|id| (format!("oai:data.example.org:object:{id}"), *id == ids[5]))
        .collect();
    for prefix in ["oai_dc", "datacite"] {
        let (found, pages) = harvest(get, &format!("metadataPrefix={prefix}"));
        assert_eq!((&found, pages), (&expected, 3), "{prefix}");
    }
    let (odd, _) = harvest(get, "metadataPrefix=oai_dc&set=app.a~20b");
    assert_eq!(odd.len(), 4, "with the deleted one: {odd:?}");
    assert_eq!(odd.values().filter(|deleted| **deleted).count(), 1);
    assert_eq!(
        elements(&get("/oai?verb=ListSets"), "setSpec"),
        ["app.a~20b", "app.vpic"]
    );
    let old = get("/oai?verb=ListRecords&metadataPrefix=oai_dc&until=2020-01-01");
    assert!(old.contains("noRecordsMatch"), "{old}");
    // One record, with its text escaped.
    let id = format!("oai:data.example.org:object:{}", ids[1]);
    let one = get(&format!(
        "/oai?verb=GetRecord&metadataPrefix=oai_dc&identifier={id}"
    ));
    assert_eq!(elements(&one, "dc:title"), ["Energy &lt;1&gt;"]);
    assert!(
        one.contains(&format!(
            "https://data.example.org/records/object:{}",
            ids[1]
        )),
        "{one}"
    );
    let gone = format!("oai:data.example.org:object:{}", ids[5]);
    let gone = get(&format!(
        "/oai?verb=GetRecord&metadataPrefix=oai_dc&identifier={gone}"
    ));
    assert!(
        gone.contains("<header status=\"deleted\">") && !gone.contains("<metadata>"),
        "{gone}"
    );
    let (status, _, page) = served.http("GET", &format!("/records/object:{}", ids[5]), "");
    assert_eq!(status, 410, "{page}");
}

#[test]
fn a_principal_sees_its_own_records_only() {
    let served = Served::start(settings());
    let ids = objects(&served, 6);
    let (status, deleted) = served.json("DELETE", &format!("/api/v1/objects/{}", ids[0]), "");
    assert_eq!(status, 200, "{deleted}");
    for (principal, visible) in [("1001:1001", 6), ("1002:1002", 4)] {
        let token = token_of(&served, principal);
        let get = |path: &str| http_by_token(served.server.address(), ("GET", path, ""), &token);
        let (found, _) = harvest(|path| get(path).2, "metadataPrefix=oai_dc");
        assert_eq!(found.len(), visible, "{principal}: {found:?}");
        let private = get(&format!("/records/object:{}", ids[3]));
        let private_record = get(&format!(
            "/oai?verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:elsewhere:object:{}",
            ids[3]
        ));
        let sees = visible == 6;
        assert_eq!(private.0, if sees { 200 } else { 404 }, "{principal}");
        assert_eq!(private.2.contains("Energy"), sees, "{principal}");
        assert_eq!(
            private_record.2.contains("idDoesNotExist"),
            !sees,
            "{principal}"
        );
    }
    // Without rights, nothing is answered.
    for path in ["/records/object:1", "/oai?verb=Identify"] {
        let (status, _, body) = http_by_token(served.server.address(), ("GET", path, ""), "wrong");
        assert_eq!(status, 401, "{path}: {body}");
    }
}

#[test]
fn only_objects_of_the_filter_are_harvested() {
    let mut all = settings();
    let text = "[catalogue]\nfilter = \"step >= 4\"\n";
    all.catalogue = Settings::from_toml("server.toml".as_ref(), text)
        .unwrap()
        .catalogue;
    let served = Served::start(all);
    let ids = objects(&served, 6);
    let get = |path: &str| served.http("GET", path, "").2;
    let (found, _) = harvest(get, "metadataPrefix=oai_dc");
    let expected: Vec<String> = ids[4..]
        .iter()
        .map(|id| format!("oai:localhost:object:{id}"))
        .collect();
    let expected: std::collections::BTreeSet<&String> = expected.iter().collect();
    assert_eq!(
        found.keys().collect::<std::collections::BTreeSet<_>>(),
        expected
    );
    let other = format!("oai:localhost:object:{}", ids[0]);
    let other = get(&format!(
        "/oai?verb=GetRecord&metadataPrefix=oai_dc&identifier={other}"
    ));
    assert!(other.contains("idDoesNotExist"), "{other}");
}
