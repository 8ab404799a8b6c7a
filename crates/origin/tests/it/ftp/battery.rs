//! One set of requests for each server.

use super::relay::Relay;
use super::servers::{Kind, Server, is_root};
use super::tree::{ODD, Times, same};
use crate::servers::patient;
use esker_origin::ftp::{Ftp, FtpSettings};
use esker_origin::{Error, MetadataRequest, PathMetadata, Pool};
use esker_site_cache::entry;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Site {
    server: Server,
    pool: Pool,
    /// Precision of the times in stat responses and in listings.
    stat: Times,
    list: Times,
}

impl Site {
    fn new(kind: Kind) -> Self {
        let server = Server::start(kind);
        let pool = server.pool(1, 64);
        let (stat, list) = match kind {
            Kind::VsftpdExact => (Times::Lines, Times::Lines),
            Kind::Vsftpd
            | Kind::VsftpdTls
            | Kind::VsftpdTlsData
            | Kind::ProftpdLogin
            | Kind::Proftpd
            | Kind::ProftpdBare => (Times::Seconds, Times::Lines),
            Kind::ProftpdData | Kind::Globus | Kind::GlobusGsi => (Times::Seconds, Times::Seconds),
        };
        Self {
            server,
            pool,
            stat,
            list,
        }
    }

    async fn stat(&self, below: &[u8]) -> esker_origin::Result<PathMetadata> {
        self.pool
            .request(MetadataRequest::stat(&self.server.path(below)))
            .await
    }

    async fn list(&self, below: &[u8]) -> esker_origin::Result<PathMetadata> {
        self.pool
            .request(MetadataRequest::list(&self.server.path(below)))
            .await
    }

    async fn is_present(&self, below: &[u8]) {
        let printable = String::from_utf8_lossy(below);
        match self.stat(below).await {
            Ok(PathMetadata::Present(attributes)) => {
                same(&self.server.tree.at(below), &attributes, self.times(below));
            }
            found => panic!("{printable}: {found:?}"),
        }
    }

    /// SIZE and MDTM do not work for directories, and follow links.
    fn is_quick(&self) -> bool {
        use Kind::{ProftpdBare, Vsftpd, VsftpdTls, VsftpdTlsData};
        matches!(
            self.server.kind,
            ProftpdBare | Vsftpd | VsftpdTls | VsftpdTlsData
        )
    }

    fn times(&self, below: &[u8]) -> Times {
        match self.server.kind {
            _ if self.is_quick() && self.server.tree.at(below).is_dir() => Times::Lines,
            _ => self.stat,
        }
    }

    async fn lists(&self, below: &[u8], hidden: &[&[u8]]) {
        let found = self.list(below).await.unwrap();
        let PathMetadata::Listing {
            attributes,
            children,
            complete,
        } = found
        else {
            panic!("{}: {found:?}", String::from_utf8_lossy(below))
        };
        assert_eq!(attributes.kind, entry::Kind::Directory);
        assert!(complete);
        let folder = self.server.tree.at(below);
        let children: BTreeMap<_, _> = children.iter().map(|c| (&*c.name, c)).collect();
        let mut there: Vec<Vec<u8>> = fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().as_bytes().to_vec())
            .filter(|name| !hidden.contains(&&name[..]))
            .collect();
        there.sort();
        let names: Vec<Vec<u8>> = children.keys().map(|name| name.to_vec()).collect();
        assert_eq!(names, there);
        for (name, child) in children {
            let path = folder.join(std::ffi::OsStr::from_bytes(name));
            same(&path, &child.attributes, self.list);
        }
    }

    async fn all(&self) {
        // Servers that follow links hide those without a target.
        let hides = matches!(
            self.server.kind,
            Kind::Globus | Kind::GlobusGsi | Kind::ProftpdData
        );
        for path in [
            &b""[..],
            b"file",
            b"recent",
            b"hollow",
            b"large",
            b".hidden",
            b"dir",
            b"dir/deep",
            b"empty",
            b"dir/inner",
            b"secret",
            b"thousand/n0999",
        ] {
            self.is_present(path).await;
        }
        if self.is_quick() {
            let found = self.stat(b"link").await.unwrap();
            assert!(
                matches!(&found, PathMetadata::Present(a) if a.size == Some(5)),
                "{found:?}"
            );
        } else {
            for path in [&b"link"[..], b"dirlink", b"dir/two"] {
                self.is_present(path).await;
                // A link is not followed, whatever its target is.
                let listed = self.list(path).await.unwrap();
                assert!(
                    matches!(&listed, PathMetadata::Present(a) if a.kind == entry::Kind::Link),
                    "{listed:?}"
                );
            }
        }
        match self.stat(b"dangling").await.unwrap() {
            // These servers follow the link, whose target does not exist.
            PathMetadata::Absent => assert!(self.server.kind != Kind::VsftpdExact),
            _ => self.is_present(b"dangling").await,
        }
        for path in [
            &b"nothing"[..],
            b"nothing/at/all",
            b"dir/nothing",
            b"dir/no*hing?",
            b"dir/{a,b}",
            b"file/below",
            b"no such file",
            b"permission denied",
        ] {
            let printable = String::from_utf8_lossy(path);
            assert_eq!(
                self.stat(path).await.unwrap(),
                PathMetadata::Absent,
                "{printable}"
            );
            assert_eq!(
                self.list(path).await.unwrap(),
                PathMetadata::Absent,
                "{printable}"
            );
        }
        // An inaccessible path is not reported as absent.
        for path in [&b"secret/inner"[..], b"secret/nothing"] {
            let error = self.stat(path).await.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error}");
        }
        let error = self.list(b"secret").await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        // A listing of a path that is not a directory returns its attributes.
        let found = self.list(b"file").await.unwrap();
        assert!(
            matches!(&found, PathMetadata::Present(a) if a.size == Some(5)),
            "{found:?}"
        );
        let dangling: &[&[u8]] = if hides { &[b"dangling"] } else { &[] };
        self.lists(b"", dangling).await;
        for path in [&b"dir"[..], b"empty", b"thousand", b"odd"] {
            self.lists(path, &[]).await;
        }
        for name in ODD {
            self.is_present(&[b"odd/", name].concat()).await;
        }
        // A name that cannot be requested is dropped, which makes the listing incomplete.
        let PathMetadata::Listing {
            children, complete, ..
        } = self.list(b"broken").await.unwrap()
        else {
            panic!()
        };
        assert!(!complete);
        let known = |c: &esker_origin::DirEntry| &*c.name == b"plain";
        assert!(children.iter().all(known), "{children:?}");
        let error = self.stat(b"broken/new\nline").await.unwrap_err();
        assert!(matches!(error, Error::InvalidName { .. }), "{error}");
        // This server reads the whole directory for each name in it.
        let slow = self.server.kind == Kind::VsftpdExact;
        self.many(if slow { 500 } else { 5_000 }).await;
        let report = self.pool.report();
        // Once in a thousand listings, ProFTPD under load stops after PASV and LIST: then that connection is abandoned.
        let again = report
            .retries
            .min(if self.server.kind == Kind::ProftpdBare {
                0
            } else {
                u64::MAX
            });
        assert_eq!((again, report.connections), (0, 1), "{report:?}");
    }

    /// Concurrent requests in random order: each gets its own response.
    async fn many(&self, count: usize) {
        let mut random = 88_172_645_463_325_252_u64;
        let asked = (0..count).map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let below = match random % 50 {
                0 => "dir".into(),
                1 => "dir/inner".into(),
                2 => format!("dir/nothing{}", random % 89),
                3 => "secret/inner".into(),
                _ => format!("thousand/n{:04}", random / 64 % 1000),
            };
            let request = MetadataRequest::stat(&self.server.path(below.as_bytes()));
            async move { (below, self.pool.request(request).await) }
        });
        for (below, found) in futures_util::future::join_all(asked).await {
            let path = self.server.tree.at(below.as_bytes());
            match found {
                Ok(PathMetadata::Present(attributes)) => {
                    same(&path, &attributes, self.times(below.as_bytes()));
                }
                Ok(PathMetadata::Absent) => assert!(!path.exists(), "{below}"),
                Err(Error::Denied { .. }) => assert!(below.starts_with("secret"), "{below}"),
                found => panic!("{below}: {found:?}"),
            }
        }
    }
}

async fn battery(kind: Kind, ways: &str) {
    if !is_root() {
        return;
    }
    let site = Site::new(kind);
    site.all().await;
    let about = site.pool.report().about;
    assert!(about.contains(ways), "{about}");
    site.pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vsftpd_answers_by_stat() {
    battery(
        Kind::Vsftpd,
        "attributes by SIZE, MDTM, STAT, listings by STAT; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vsftpd_answers_all_by_stat() {
    battery(
        Kind::VsftpdExact,
        "attributes by STAT, listings by STAT; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vsftpd_answers_over_tls() {
    battery(
        Kind::VsftpdTls,
        "attributes by SIZE, MDTM, STAT, listings by STAT; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_channels_have_tls_too() {
    battery(
        Kind::VsftpdTlsData,
        "attributes by SIZE, MDTM, CWD, listings by LIST; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_come_from_netrc() {
    if !is_root() {
        return;
    }
    let server = Server::start(Kind::ProftpdLogin);
    let netrc = server.dir.path().join("netrc");
    let request = async |text: &str| {
        fs::write(&netrc, text).unwrap();
        super::tree::chmod(&netrc, 0o600);
        let settings = FtpSettings {
            netrc: Some(netrc.clone()),
            clear_passwords: true,
            ..server.settings()
        };
        let ftp = Ftp::new(server.origin_url(server.port), settings).unwrap();
        let pool = Pool::new(Arc::new(ftp), patient());
        pool.request(MetadataRequest::stat(b"/file")).await
    };
    let found = request(&format!(
        "machine localhost:{} login ann password \"s3cret pass\"",
        server.port
    ))
    .await;
    assert!(matches!(found, Ok(PathMetadata::Present(_))), "{found:?}");
    let wrong = format!(
        "machine localhost:{} login ann password s3cret",
        server.port
    );
    for text in [&*wrong, ""] {
        let error = request(text).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("~/.netrc") && !text.contains("s3cret"),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proftpd_answers_by_mlst() {
    battery(Kind::Proftpd, "attributes by MLST, listings by STAT; 64").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_come_over_a_data_channel_where_there_is_no_other_way() {
    battery(
        Kind::ProftpdData,
        "attributes by MLST, listings by MLSD; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_can_do_nothing_new_answer_by_old_commands() {
    battery(
        Kind::ProftpdBare,
        "attributes by SIZE, MDTM, CWD, listings by LIST; 64",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gridftp_answers_by_mlsc() {
    battery(Kind::Globus, "attributes by MLST, listings by MLSC; 64").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gridftp_authenticates_by_proxy_certificate() {
    battery(Kind::GlobusGsi, "attributes by MLST, listings by MLSC; 64").await;
    if !is_root() {
        return;
    }
    let server = Server::start(Kind::GlobusGsi);
    let refused = async |settings: FtpSettings| {
        let ftp = Ftp::new(server.origin_url(server.port), settings).unwrap();
        let pool = Pool::new(Arc::new(ftp), patient());
        pool.request(MetadataRequest::stat(b"/")).await.unwrap_err()
    };
    // Without a certificate, the server denies access.
    let e = refused(FtpSettings {
        proxy: None,
        ..server.settings()
    });
    let e = e.await;
    assert!(matches!(e, Error::Denied { .. }), "{e}");
    assert!(e.to_string().contains("grid-proxy-init"), "{e}");
    // A certificate that others can read is not used.
    let proxy = server.dir.path().join("open");
    fs::copy(server.dir.path().join("proxy"), &proxy).unwrap();
    super::tree::chmod(&proxy, 0o644);
    let e = refused(FtpSettings {
        proxy: Some(proxy),
        ..server.settings()
    });
    let e = e.await;
    assert!(e.to_string().contains("chmod 600"), "{e}");
    // A server signed by an unknown authority is not trusted.
    let stranger = tempfile::tempdir().unwrap();
    super::servers::authority(&stranger);
    let e = refused(FtpSettings {
        grid: Some(stranger.path().join("certificates")),
        ..server.settings()
    });
    let e = e.await;
    assert!(matches!(e, Error::Denied { .. }), "{e}");
    assert!(
        e.to_string().contains("GSI: invalid peer certificate"),
        "{e}"
    );
    // The server does not trust certificates of an unknown authority.
    let e = refused(FtpSettings {
        proxy: Some(stranger.path().join("proxy")),
        ..server.settings()
    });
    let e = e.await;
    assert!(matches!(e, Error::Denied { .. }), "{e}");
}

/// The commands that a server receives before its first reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_out_ahead_of_replies() {
    if !is_root() {
        return;
    }
    for kind in [Kind::Vsftpd, Kind::Proftpd, Kind::Globus] {
        let server = Server::start(kind);
        let relay = Relay::start(server.port, Duration::ZERO).await;
        let pool = server.pool_at(relay.port, 1, 64);
        pool.request(MetadataRequest::stat(&server.path(b"file")))
            .await
            .unwrap();
        // No reply passes before 64 commands have arrived.
        relay.hold_replies(64);
        let asked = (0..200).map(|n| {
            let path = server.path(format!("thousand/n{n:04}").as_bytes());
            let pool = pool.clone();
            async move { pool.request(MetadataRequest::stat(&path)).await.unwrap() }
        });
        futures_util::future::join_all(asked).await;
        let commands_before_reply = relay.commands_before_reply();
        assert!(
            commands_before_reply >= 64,
            "{kind:?}: {commands_before_reply}"
        );
        assert_eq!(pool.report().connections, 1);
        // A listing is pipelined with others, unless it needs a data channel.
        relay.hold_replies(32);
        let asked = (0..40).map(|_| {
            let path = server.path(b"dir");
            let pool = pool.clone();
            async move { pool.request(MetadataRequest::list(&path)).await.unwrap() }
        });
        futures_util::future::join_all(asked).await;
        assert!(relay.commands_before_reply() >= 32, "{kind:?}");
    }
}

/// Absent names: the parent directory is listed, but not once for each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_absent_names_take_few_listings() {
    if !is_root() {
        return;
    }
    let server = Server::start(Kind::Vsftpd);
    let pool = server.pool(1, 64);
    let asked = (0..500).map(|n| {
        let path = server.path(format!("thousand/nothing{n}").as_bytes());
        let pool = pool.clone();
        async move { pool.request(MetadataRequest::stat(&path)).await }
    });
    for found in futures_util::future::join_all(asked).await {
        assert!(matches!(found, Ok(PathMetadata::Absent)), "{found:?}");
    }
    let log = fs::read_to_string(server.dir.path().join("log")).unwrap();
    let listings = log.matches("STAT -a /thousand\"").count();
    assert!(
        (1..=60).contains(&listings),
        "{listings} listings for 500 names"
    );
}

/// A measurement: `cargo test -p esker-origin --test it speed -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed() {
    use std::io::Write as _;
    let say = |line: String| {
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    for kind in [Kind::Vsftpd, Kind::Proftpd, Kind::Globus] {
        let server = Server::start(kind);
        fs::create_dir(server.tree.at(b"many")).unwrap();
        for n in 0..100_000 {
            fs::write(server.tree.at(format!("many/name-{n}").as_bytes()), b"").unwrap();
        }
        let pool = server.pool(1, 64);
        let began = Instant::now();
        let listed = pool
            .request(MetadataRequest::list(&server.path(b"many")))
            .await;
        let Ok(PathMetadata::Listing { children, .. }) = listed else {
            panic!("{kind:?}: {listed:?}")
        };
        let took = began.elapsed().as_secs_f64();
        say(format!(
            "{kind:?}: {} names listed in {took:.2} s",
            children.len()
        ));
        drop(server);
        for (delay, windows) in [(0, &[1, 64][..]), (16, &[1, 64])] {
            for window in windows {
                let server = Server::start(kind);
                let relay = Relay::start(server.port, Duration::from_millis(delay)).await;
                let port = if delay == 0 { server.port } else { relay.port };
                let pool = server.pool_at(port, 1, *window);
                pool.request(MetadataRequest::stat(&server.path(b"file")))
                    .await
                    .unwrap();
                let count = match (delay, window) {
                    (16, 1) => 100,
                    _ => 10_000,
                };
                let began = Instant::now();
                let asked = (0..count).map(|n| {
                    let path = server.path(format!("thousand/n{:04}", n % 1000).as_bytes());
                    let pool = pool.clone();
                    async move { pool.request(MetadataRequest::stat(&path)).await.map(|_| ()) }
                });
                let answers = futures_util::future::join_all(asked).await;
                let good = answers.iter().filter(|a| a.is_ok()).count();
                let rate = f64::from(count) / began.elapsed().as_secs_f64();
                say(format!(
                    "{kind:?}, round trip {} ms, window {window}: {rate:.0} stats/s ({good} of {count} answered)",
                    delay * 2
                ));
            }
        }
    }
}
