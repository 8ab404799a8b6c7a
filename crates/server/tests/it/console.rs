//! Endpoints of the console's pages, and sessions of browsers.

use crate::common::{Served, filled, settings};
use esker_testkit::wait::HANG;
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// Sends a request with extra headers; returns the status, the headers and the body.
fn with(served: &Served, request: &str, headers: &[&str], body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    let headers: String = headers.iter().flat_map(|h| [*h, "\r\n"]).collect();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn the_pages_are_there_for_anybody_and_ask_nobody_else() {
    let served = Served::start(settings());
    let (status, head, body) = with(&served, "GET /", &["host: evil.example"], "");
    assert_eq!(status, 200);
    assert!(head.contains("default-src 'self'"), "{head}");
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
    assert!(!body.contains("https://"), "{body}");
    let script = body
        .split('"')
        .find(|part| part.starts_with("./assets/"))
        .unwrap();
    let asked = format!("GET {}", &script[1..]);
    let (status, head, _) = with(&served, &asked, &["accept-encoding: gzip"], "");
    assert_eq!(status, 200);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("immutable"), "{head}");
    assert_eq!(served.http("GET", "/assets/none.js", "").0, 404);
    assert_eq!(served.http("GET", "/assets/../Cargo.toml", "").0, 404);
}

#[test]
fn a_ticket_lets_a_browser_in_once() {
    let served = Served::start(settings());
    filled(&served);
    let link = served.server.console_link().unwrap();
    let (at, ticket) = link.split_once("/#/enter?ticket=").unwrap();
    assert_eq!(at, format!("http://{}", served.server.address()));
    // With this host name, the kernel's identification does not count.
    let elsewhere = "host: lab.example";
    let (status, _, body) = with(&served, "GET /api/v1/home", &[elsewhere], "");
    assert_eq!(status, 401, "{body}");
    let (status, _, body) = with(&served, "GET /api/v1/session", &[elsewhere], "");
    assert_eq!(status, 401, "{body}");
    let shown = json!({ "ticket": ticket }).to_string();
    let enter = "POST /api/v1/session";
    let (status, head, body) = with(&served, enter, &[elsewhere], &shown);
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        serde_json::from_str::<Json>(&body).unwrap()["role"],
        "admin"
    );
    let cookie = head.lines().find_map(|l| l.strip_prefix("set-cookie: "));
    let cookie = cookie.unwrap();
    for word in ["httponly", "samesite=strict", "path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    let (status, _, body) = with(&served, "GET /api/v1/session", &[elsewhere, &cookie], "");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"how\":\"session\""), "{body}");
    let line = r#"{"op":"ensure_vertex","id":"job:9"}"#;
    let apply = "POST /api/v1/apply";
    let own = "origin: http://lab.example";
    let (status, ..) = with(&served, apply, &[elsewhere, &cookie, own], line);
    assert_eq!(status, 200);
    // A request for a page of another site with this cookie is refused.
    let other = "origin: https://evil.example";
    let (status, ..) = with(&served, apply, &[elsewhere, &cookie, other], line);
    assert_eq!(status, 401);
    let (status, _, body) = with(&served, enter, &[elsewhere], &shown);
    assert_eq!(status, 401);
    assert!(body.contains("was used already"), "{body}");
    let (status, ..) = with(&served, enter, &[elsewhere], "{}");
    assert_eq!(status, 400);
    let (status, ..) = with(&served, "DELETE /api/v1/session", &[elsewhere, &cookie], "");
    assert_eq!(status, 200);
    let (status, ..) = with(&served, "GET /api/v1/home", &[elsewhere, &cookie], "");
    assert_eq!(status, 401);
}

#[test]
fn an_authenticated_client_may_pass_on_a_ticket() {
    let served = Served::start(settings());
    let (status, made) = served.json("POST", "/api/v1/session/ticket", "");
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["role"], "admin");
    let (status, _, body) = with(
        &served,
        "POST /api/v1/session/ticket",
        &["host: lab.example"],
        "",
    );
    assert_eq!(status, 401, "{body}");
    let (_, session) = served.json("GET", "/api/v1/session", "");
    assert_eq!(session["how"], "process");
    assert_eq!(session["server"]["kind"], "folder");
}

#[test]
fn pages_get_what_they_show() {
    let served = Served::start(settings());
    let database = filled(&served);
    let get = |path: &str| {
        let (status, json) = served.json("GET", path, "");
        assert_eq!(status, 200, "{path}: {json}");
        json
    };
    let home = get("/api/v1/home");
    assert_eq!(home["vertices"]["File"], 2);
    assert_eq!(home["edges"]["read"], 1, "each edge once: {home}");
    assert_eq!(home["runs"][0]["id"], "job:1");
    assert_eq!(home["runs"][0]["user"], "ada");
    assert!(
        home["health"]
            .as_array()
            .unwrap()
            .iter()
            .any(|h| h["name"] == "store" && h["state"] == "ok")
    );

    let names = |json: &Json, key: &str| -> Vec<String> {
        let items = json[key].as_array().unwrap().iter();
        let name = |i: &Json| i["name"].as_str().or(i["id"].as_str()).unwrap().to_owned();
        items.map(name).collect()
    };
    assert_eq!(names(&get("/api/v1/suggest?q=ou"), "items"), ["file:/out"]);
    // Search also finds objects by the name of their user, and exact names.
    assert_eq!(names(&get("/api/v1/suggest?q=ADA"), "items"), ["user:1"]);
    assert_eq!(names(&get("/api/v1/suggest?q=/in"), "items"), ["file:/in"]);
    assert_eq!(names(&get("/api/v1/suggest?q=job:"), "items"), ["job:1"]);
    let found = get("/api/v1/search?q=n");
    assert_eq!(names(&found, "items"), ["file:/in"]);
    assert_eq!(
        found["facets"]["type"],
        json!([{"value": "File", "count": 1}])
    );
    assert_eq!(get("/api/v1/search?type=DataObject")["matches"], 2);
    assert_eq!(get("/api/v1/search?q=zzz")["matches"], 0);
    served.json(
        "POST",
        "/api/v1/objects",
        r#"{"name": "energy", "app": "vpic", "owner": 7, "step": 3, "tags": {"Conf": 1, "x": 2.5}}"#,
    );
    let found = get("/api/v1/search?q=Conf%20%3D%201");
    assert_eq!(
        (&found["how"], &found["matches"]),
        (&json!("filter"), &json!(1))
    );
    assert_eq!(found["facets"]["app"][0]["value"], "vpic");
    let spread = &get("/api/v1/tags/values?name=Conf")["spread"];
    assert_eq!(spread["top"], json!([{"value": 1, "count": 1}]));

    let run = get("/api/v1/runs/one?id=job:1");
    assert_eq!(run["writes"][0]["id"], "file:/out");
    assert_eq!(run["reads"][0]["properties"], json!({"bytes": 7}));
    assert_eq!(get("/api/v1/runs?user=ada")["runs"][0]["id"], "job:1");
    assert_eq!(get("/api/v1/runs?state=failed")["runs"], json!([]));
    let around = get("/api/v1/view/neighbourhood?id=file:/in&depth=3");
    assert_eq!(around["vertices"].as_array().unwrap().len(), 4);
    assert_eq!(around["edges"].as_array().unwrap().len(), 3, "each once");
    let little = get("/api/v1/view/neighbourhood?id=job:1&limit=2");
    assert_eq!(
        (
            little["vertices"].as_array().unwrap().len(),
            &little["held_back"]
        ),
        (2, &json!(2))
    );
    let cluster = get("/api/v1/cluster");
    assert_eq!(cluster["servers"][0]["vertices"], 5);
    assert_eq!(cluster["traversals"], json!([]));
    let chain = r#"{"chain": "v(\"user:1\").e(run).v().e(write).v()"}"#;
    assert_eq!(served.json("POST", "/api/v1/travel", chain).0, 200);
    let told = &get("/api/v1/cluster")["traversals"][0];
    assert_eq!(told["profile"].as_array().unwrap().len(), 2, "{told}");
    assert_eq!(told["chain"], r#"v("user:1").e("run").v().e("write").v()"#);
    assert_eq!(get("/api/v1/site"), json!({"tiers": []}));
    let next = get("/api/v1/complete?what=travel&text=v(%22job:1%22).e(%22wr");
    assert_eq!(next["items"][0]["apply"], "write");
    let made = get("/api/v1/export/lineage?id=file:/out");
    let job = made["@graph"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["@id"] == "#job/1")
        .unwrap();
    assert_eq!(job["result"], json!({"@id": "file:///out"}));
    drop(database);
}

#[test]
fn mistakes_are_told_to_pages() {
    let served = Served::start(settings());
    filled(&served);
    for (path, status, said) in [
        ("/api/v1/suggest", 400, "parameter `q` is missing"),
        ("/api/v1/search?q=x%20%3D%3D%3D%201", 400, "^"),
        ("/api/v1/search?type=Fil", 400, "did you mean `File`"),
        (
            "/api/v1/runs?state=done",
            400,
            "unknown value `done`; expected running, ok, failed, unknown",
        ),
        (
            "/api/v1/runs?state=faild",
            400,
            "did you mean `failed`? (expected one of: running, ok, failed, unknown)",
        ),
        ("/api/v1/runs?user=bea", 400, "no user `bea`"),
        ("/api/v1/runs?after=x", 400, "`next` of the previous answer"),
        ("/api/v1/runs/one?id=job:77", 404, "no run `job:77`"),
        ("/api/v1/runs/one?id=file:/in", 404, "no run `file:/in`"),
        ("/api/v1/runs/diff?a=job:1&b=job:77", 404, "job:77"),
        (
            "/api/v1/view/neighbourhood?id=job:77",
            404,
            "no vertex `job:77`",
        ),
        (
            "/api/v1/view/neighbourhood?id=job:1&depth=9",
            400,
            "expected 0 to 6",
        ),
        ("/api/v1/view/space?by=colour", 400, "expected dir, user"),
        ("/api/v1/view/space?by=usr", 400, "did you mean `user`?"),
        ("/api/v1/view/space?path=/none", 404, "/none"),
        (
            "/api/v1/complete?what=perl",
            400,
            "expected travel, filter, sparql",
        ),
        ("/api/v1/export/lineage?id=file:/none", 404, "no vertex"),
        (
            "/api/v1/export/lineage?id=file:/out&format=pdf",
            400,
            "expected ro-crate",
        ),
    ] {
        let (got, json) = served.json("GET", path, "");
        let error = json["error"].as_str().unwrap_or_default();
        assert_eq!(got, status, "{path}: {json}");
        assert!(error.contains(said), "{path}: {error}");
    }
}

#[test]
fn changes_are_told_as_they_happen() {
    let served = Served::start(settings());
    filled(&served);
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    write!(
        stream,
        "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("connected")));
    let line = r#"{"op":"put_edge","src":"job:1","type":"write","dst":"file:/in"}"#;
    assert_eq!(served.json("POST", "/api/v1/apply", line).0, 200);
    let told = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let told: Json = serde_json::from_str(&told.unwrap()).unwrap();
    let change = &told["changes"][0];
    assert_eq!(
        (&change["id"], &change["change"], &change["edge"]),
        (
            &json!("job:1"),
            &json!("linked"),
            &json!({"type": "write", "to": "file:/in"})
        ),
        "{told}"
    );
    // Stopping the server does not wait for the listener of an event stream.
    drop(lines);
}
