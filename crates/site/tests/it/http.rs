//! HTTP interface as programs without Esker use it.

use crate::tiers::{cloud, tier};
use esker_rpc::http::{Endpoint, RequestBody};
use esker_site::serve::RunningTier;
use esker_testkit::wait::HANG;
use serde_json::Value as Json;

async fn get(standing: &RunningTier, method: &'static str, rest: &str) -> (u16, String, Json) {
    let url = format!("{}{rest}", standing.url);
    let asked = tokio::task::spawn_blocking(move || {
        let (place, path) = Endpoint::of_url(&url, HANG).unwrap();
        let never = || false;
        let mut answer = place
            .request(method, &path, &[], RequestBody::Nothing, &never, None)
            .unwrap();
        let age = answer.header("age").to_owned();
        (answer.status, age, answer.text(1 << 20).unwrap())
    });
    let (status, age, text) = asked.await.unwrap();
    (
        status,
        age,
        serde_json::from_str(&text).unwrap_or(Json::String(text)),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_told_of_with_their_freshness() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a b"), "four").unwrap();
    let odd: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"odd\xff".to_vec());
    std::fs::write(folder.path().join(odd), "").unwrap();
    let edge = tier(&[], |_| {}).await;
    let root = folder.path().to_str().unwrap();
    let (status, age, body) = get(
        &edge,
        "GET",
        &format!("/v1/stat?origin=file%3A%2F%2F&path={root}/a+b&max_age=5"),
    )
    .await;
    assert_eq!((status, body["size"].as_u64()), (200, Some(4)));
    assert_eq!(age, "0");
    assert_eq!(body["kind"], "file");
    assert!(body["subscribed"].is_boolean() && body["hit"].is_boolean() && body["age"].is_number());
    let (status, _, body) = get(&edge, "GET", &format!("/v1/list?url=file://{root}")).await;
    assert_eq!(status, 200);
    assert_eq!(body["complete"], true);
    let children = body["children"].as_array().unwrap();
    assert_eq!(children[0]["name"], "a b");
    assert_eq!(children[1]["name_url"], "odd%FF");
    let (status, _, body) = get(&edge, "GET", &format!("/v1/stat?url=file://{root}/odd%FF")).await;
    assert_eq!((status, body["size"].as_u64()), (200, Some(0)));
    let (status, _, body) = get(&edge, "GET", &format!("/v1/stat?url=file://{root}/none")).await;
    assert_eq!(status, 404);
    assert_eq!(
        body["error"],
        "the path does not exist at the origin: check it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_told_what_is_wrong() {
    let cloud = cloud(1).await;
    for (rest, why) in [
        ("/v1/stat", "`origin` is missing"),
        ("/v1/stat?origin=file://", "`path` is missing"),
        ("/v1/stat?url=nonsense", "nonsense"),
        (
            "/v1/stat?url=file:///x&max_age=soon",
            "`max_age` is in seconds",
        ),
        (
            "/v1/stat?url=file:///x&colour=red",
            "`colour` is not a parameter",
        ),
        ("/v1/stat?origin=file://&path=x", "does not begin with /"),
    ] {
        let (status, _, body) = get(&cloud, "GET", rest).await;
        assert_eq!(status, 400, "{rest}: {body}");
        assert!(body["error"].as_str().unwrap().contains(why), "{body}");
    }
    let (status, ..) = get(&cloud, "GET", "/nowhere").await;
    assert_eq!(status, 404);
    let (status, ..) = get(&cloud, "POST", "/v1/stat?url=file:///x").await;
    assert_eq!(status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_tells_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "x").unwrap();
    let edge = tier(&[], |c| c.name = "here".into()).await;
    let url = format!("file://{}/f", folder.path().display());
    get(&edge, "GET", &format!("/v1/stat?url={url}")).await;
    get(&edge, "GET", &format!("/v1/stat?url={url}")).await;
    let (_, _, status) = get(&edge, "GET", "/v1/status").await;
    assert_eq!(
        (&status["name"], &status["asked"], &status["hits"]),
        (&"here".into(), &2.into(), &1.into())
    );
    assert_eq!(status["origins"][0]["origin"], "file://");
    let (_, _, known) = get(&edge, "GET", &format!("/v1/explain?url={url}")).await;
    assert_eq!(known["kept"]["size"], 1);
    let (_, _, metrics) = get(&edge, "GET", "/metrics").await;
    assert!(
        metrics
            .as_str()
            .unwrap()
            .contains("esker_site_hits_total 1\n"),
        "{metrics}"
    );
    let (status, ..) = get(&edge, "POST", &format!("/v1/invalidate?url={url}")).await;
    assert_eq!(status, 200);
    let (_, _, known) = get(&edge, "GET", &format!("/v1/explain?url={url}")).await;
    assert!(known["kept"].is_null());
}
