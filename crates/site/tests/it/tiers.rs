//! Edge, fog node and cloud over sockets: they answer what a folder contains, are notified of changes, and continue when one of them
//! stops.

use esker_origin::PathMetadata;
use esker_site::serve::RunningTier;
use esker_site::{Client, Config, MetadataQuery, Refused, TierAnswer};
use esker_site_cache::entry::{Kind, Wants};
use esker_testkit::wait::eventually_async;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) async fn tier(
    parents: &[&RunningTier],
    change: impl FnOnce(&mut Config),
) -> Arc<RunningTier> {
    let mut config = Config {
        listen: "127.0.0.1:0".into(),
        parents: parents.iter().map(|p| p.url.clone()).collect(),
        ..Config::default()
    };
    config.rules.allow = vec!["file://".into()];
    change(&mut config);
    RunningTier::start(config).await.unwrap()
}

pub(crate) async fn cloud(services: usize) -> Arc<RunningTier> {
    tier(&[], |c| {
        c.name = "cloud".into();
        c.services = Some(services);
        c.rules.settings.connections = services;
        c.rules.settings.in_flight = 1;
    })
    .await
}

async fn stat(
    client: &Client,
    path: &Path,
    max_age: Option<Duration>,
) -> Result<TierAnswer, Refused> {
    let path = path.to_str().unwrap().as_bytes();
    let asked = MetadataQuery {
        max_age,
        ..MetadataQuery::new("file://", path, Wants::Stat)
    };
    client.query(asked).await
}

async fn list(
    client: &Client,
    path: &Path,
    max_age: Option<Duration>,
) -> Result<TierAnswer, Refused> {
    let path = path.to_str().unwrap().as_bytes();
    let asked = MetadataQuery {
        max_age,
        ..MetadataQuery::new("file://", path, Wants::List)
    };
    client.query(asked).await
}

fn size(given: &TierAnswer) -> Option<u64> {
    match &given.found {
        PathMetadata::Present(of) | PathMetadata::Listing { attributes: of, .. } => of.size,
        PathMetadata::Absent => None,
    }
}

fn names(given: &TierAnswer) -> BTreeSet<String> {
    match &given.found {
        PathMetadata::Listing { children, .. } => children
            .iter()
            .map(|c| String::from_utf8(c.name.to_vec()).unwrap())
            .collect(),
        _ => BTreeSet::new(),
    }
}

/// Waits until a condition is true.
async fn comes<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    eventually_async(async || holds().await.then_some(()).ok_or(what)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_edge_answers_is_what_the_folder_holds() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let cloud = cloud(8).await;
    let fog = tier(&[&cloud], |c| c.name = "fog".into()).await;
    let edge = tier(&[&fog], |c| c.name = "edge".into()).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let fresh = Some(Duration::ZERO);
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        // Numerical Recipes' generator: the same in every run.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let path = |n: u64| {
        root.join(format!("d{}", n % 4))
            .join(format!("f{}", n % 13))
    };
    for step in 0..400 {
        let n = random(1000);
        let at = path(n);
        match random(4) {
            0 => {
                std::fs::create_dir_all(at.parent().unwrap()).unwrap();
                std::fs::write(&at, vec![b'x'; (n % 97) as usize]).unwrap();
            }
            1 => drop(std::fs::remove_file(&at)),
            2 if random(10) == 0 => drop(std::fs::remove_dir_all(at.parent().unwrap())),
            _ => {}
        }
        // A maximum age of zero gets the current state, whatever is cached on the way.
        let asked = path(random(1000));
        let given = stat(&client, &asked, fresh).await.unwrap();
        let truth = std::fs::symlink_metadata(&asked).ok().map(|m| m.len());
        assert_eq!(size(&given), truth, "step {step}: {}", asked.display());
        assert_eq!(
            given.found == PathMetadata::Absent,
            truth.is_none(),
            "step {step}"
        );
        // And these fill the caches.
        stat(&client, &path(random(1000)), None).await.unwrap();
        list(&client, path(random(1000)).parent().unwrap(), None)
            .await
            .unwrap();
    }
    // Changes are notified: soon all caches are correct, without a maximum age.
    for n in 0..52 {
        let at = path(n);
        comes("the edge hears of changes", || async {
            let given = stat(&client, &at, None).await.unwrap();
            size(&given) == std::fs::symlink_metadata(&at).ok().map(|m| m.len())
        })
        .await;
    }
    assert!(
        edge.node.figures().stats.hits > 100,
        "{:?}",
        edge.node.figures()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_was_told_is_never_unsaid() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for i in 0..100 {
        std::fs::write(root.join(format!("f{i}")), "x").unwrap();
    }
    let cloud = cloud(4).await;
    let edge = tier(&[&cloud], |_| {}).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    assert_eq!(names(&list(&client, root, None).await.unwrap()).len(), 100);
    for i in 0..100 {
        let path = root.join(format!("f{i}"));
        std::fs::remove_file(&path).unwrap();
        comes("the deletion is told", || async {
            stat(&client, &path, None).await.unwrap().found == PathMetadata::Absent
        })
        .await;
        for _ in 0..5 {
            let again = stat(&client, &path, None).await.unwrap();
            assert_eq!(again.found, PathMetadata::Absent);
            assert!(!names(&list(&client, root, None).await.unwrap()).contains(&format!("f{i}")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_but_one_of_the_tiers_above_may_end() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for d in 0..20 {
        std::fs::create_dir(root.join(format!("d{d}"))).unwrap();
        std::fs::write(root.join(format!("d{d}/f")), "1").unwrap();
    }
    let members = [cloud(2).await, cloud(2).await, cloud(2).await];
    let edge = tier(&[&members[0], &members[1], &members[2]], |c| {
        c.rules.settings.patience = Duration::from_secs(15);
    })
    .await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let all = || async {
        for d in 0..20 {
            let path = root.join(format!("d{d}/f"));
            let given = stat(&client, &path, Some(Duration::ZERO)).await.unwrap();
            let truth = std::fs::symlink_metadata(&path).unwrap().len();
            assert_eq!(size(&given), Some(truth));
        }
    };
    all().await;
    let asked = |m: &RunningTier| m.node.figures().stats.requests;
    assert!(
        members.iter().filter(|m| asked(m) > 0).count() > 1,
        "the work is shared"
    );
    members[0].stop().await;
    all().await;
    members[2].stop().await;
    all().await;
    // Invalidations of a stopped member do not arrive: its answers expire.
    for d in 0..20 {
        std::fs::write(root.join(format!("d{d}/f")), "12").unwrap();
    }
    for d in 0..20 {
        let path = root.join(format!("d{d}/f"));
        comes("nothing old is believed", || async {
            size(&stat(&client, &path, None).await.unwrap()) == Some(2)
        })
        .await;
    }
    members[1].stop().await;
    // The error is returned after the timeout.
    let refused = stat(&client, &root.join("d3/f"), Some(Duration::ZERO))
        .await
        .unwrap_err();
    assert!(matches!(refused, Refused::Origin(_)), "{refused}");
    // An expired answer is returned only to clients that accept it.
    let path = root.join("d3/f");
    let asked = MetadataQuery {
        max_age: Some(Duration::ZERO),
        stale_if_error: true,
        ..MetadataQuery::new("file://", path.to_str().unwrap().as_bytes(), Wants::Stat)
    };
    let old = client.query(asked).await.unwrap();
    assert_eq!(size(&old), Some(2));
    assert!(old.age > Duration::ZERO && !old.subscribed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_many_names_comes_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for i in 0..20_000 {
        std::fs::File::create(root.join(format!("a-name-that-is-longer-{i}"))).unwrap();
    }
    let cloud = cloud(2).await;
    let edge = tier(&[&cloud], |_| {}).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let given = list(&client, root, None).await.unwrap();
    assert_eq!(names(&given).len(), 20_000);
    // An unchanged cached answer is confirmed by the upstream tier without sending it.
    let again = list(&client, root, Some(Duration::ZERO)).await.unwrap();
    assert_eq!(names(&again).len(), 20_000);
    assert!(!again.hit);
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_questions_are_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "x").unwrap();
    let cloud = cloud(1).await;
    let edge = tier(&[&cloud], |_| {}).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    let path = folder.path().join("f");
    let all = futures_util::future::join_all((0..500).map(|_| stat(&client, &path, None))).await;
    assert!(all.iter().all(|g| size(g.as_ref().unwrap()) == Some(1)));
    assert_eq!(edge.node.figures().stats.requests, 500);
    assert_eq!(cloud.node.figures().stats.requests, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_refused_with_a_reason() {
    let cloud = cloud(1).await;
    let edge = tier(&[&cloud], |_| {}).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    for (origin, path, why) in [
        ("gopher://h", "/x", "no such protocol"),
        ("sftp://h/with/path", "/x", "an origin has no path"),
        ("ftp://elsewhere", "/x", "does not ask that origin"),
        ("file://", "relative", "does not begin with /"),
        ("file://", "/a/../b", ".. is not followed"),
    ] {
        let asked = MetadataQuery::new(origin, path.as_bytes(), Wants::Stat);
        let refused = client.query(asked).await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let long = "/a".repeat(3000);
    let asked = MetadataQuery::new("file://", long.as_bytes(), Wants::Stat);
    assert!(
        client
            .query(asked)
            .await
            .unwrap_err()
            .to_string()
            .contains("deeper")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_can_say_that_a_path_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    std::fs::write(&path, "x").unwrap();
    let cloud = cloud(1).await;
    let fog = tier(&[&cloud], |_| {}).await;
    let edge = tier(&[&fog], |_| {}).await;
    let client = Client::connect(&edge.url, "test").await.unwrap();
    stat(&client, &path, None).await.unwrap();
    assert!(stat(&client, &path, None).await.unwrap().hit);
    client.invalidate("file://", path.to_str().unwrap().as_bytes());
    comes("it is fetched anew", || async {
        !stat(&client, &path, None).await.unwrap().hit
    })
    .await;
    let kind = match stat(&client, &path, None).await.unwrap().found {
        PathMetadata::Present(of) => of.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind, Kind::File);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_outlives_its_tier() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    std::fs::create_dir(&root).unwrap();
    for i in 0..50 {
        std::fs::write(root.join(format!("f{i}")), "x").unwrap();
    }
    let disk = folder.path().join("disk");
    let cloud = cloud(4).await;
    let first = tier(&[&cloud], |c| {
        c.disk = Some(disk.clone());
        // With this little memory, nearly all is on disk only.
        c.memory_bytes = 2048;
        c.predictor = esker_site_cache::predict::PredictorKind::Lru;
    })
    .await;
    let client = Client::connect(&first.url, "test").await.unwrap();
    let all = |client: Client| {
        let root = root.clone();
        async move {
            for i in 0..50 {
                let given = stat(&client, &root.join(format!("f{i}")), None)
                    .await
                    .unwrap();
                assert_eq!(size(&given), Some(1));
            }
        }
    };
    all(client.clone()).await;
    let asked = cloud.node.figures().stats.requests;
    assert_eq!(asked, 50);
    all(client.clone()).await;
    assert_eq!(
        cloud.node.figures().stats.requests,
        asked,
        "the disk answers what memory has not"
    );
    // Changed paths are removed from the disk.
    std::fs::write(root.join("f7"), "four").unwrap();
    comes("the disk hears of changes", || async {
        size(&stat(&client, &root.join("f7"), None).await.unwrap()) == Some(4)
    })
    .await;
    first.stop().await;
    drop(client);
    drop(first);
    // In a new run, subscriptions of the old one have ended, but answers are valid for their time to live.
    let second = eventually_async(async || {
        let mut config = Config {
            listen: "127.0.0.1:0".into(),
            parents: vec![cloud.url.clone()],
            disk: Some(disk.clone()),
            ..Config::default()
        };
        config.rules.allow = vec!["file://".into()];
        config.rules.settings.patience = Duration::from_secs(5);
        // The folder is free when the last task of the first tier has ended.
        RunningTier::start(config).await
    })
    .await;
    assert!(second.node.on_disk().unwrap().1 >= 49);
    let client = Client::connect(&second.url, "test").await.unwrap();
    let given = stat(&client, &root.join("f8"), None).await.unwrap();
    assert_eq!(size(&given), Some(1));
    assert!(given.age > Duration::ZERO && !given.subscribed);
    assert_eq!(
        size(&stat(&client, &root.join("f7"), None).await.unwrap()),
        Some(4)
    );
    // And clients that accept expired answers get them.
    cloud.stop().await;
    let path = root.join("f9");
    let asked = MetadataQuery {
        max_age: Some(Duration::ZERO),
        stale_if_error: true,
        ..MetadataQuery::new("file://", path.to_str().unwrap().as_bytes(), Wants::Stat)
    };
    assert_eq!(size(&client.query(asked).await.unwrap()), Some(1));
}
