//! Passwords are not sent in clear text, and an attacker cannot make the client skip encryption.

use super::hostile::{ServerReply, start};
use crate::servers::patient;
use esker_origin::ftp::{Ftp, FtpSettings};
use esker_origin::{Error, MetadataRequest, OriginUrl, Pool};
use esker_testkit::wait::HANG;
use std::fs;
use std::sync::{Arc, Mutex};

const WORD: &str = "s3cret-word";

/// A server that records its input and gives this reply to AUTH.
async fn listening(auth: &'static [u8]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = heard.clone();
    let script = move |command: &str| {
        keep.lock().unwrap().push(command.to_owned());
        command
            .starts_with("AUTH")
            .then(|| ServerReply::plain(auth))
    };
    (start(Arc::new(script)).await, heard)
}

/// Sends one request to the server, with this netrc file.
async fn request(url: &str, netrc: &str, with: impl FnOnce(&mut FtpSettings)) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("netrc");
    fs::write(&file, netrc).unwrap();
    super::tree::chmod(&file, 0o600);
    let mut settings = FtpSettings {
        silence: HANG,
        netrc: Some(file),
        proxy: None,
        ..FtpSettings::default()
    };
    with(&mut settings);
    let (origin_url, _) = OriginUrl::parse(url).unwrap();
    let pool = Pool::new(
        Arc::new(Ftp::new(origin_url, settings).unwrap()),
        esker_origin::Settings {
            connections: 1,
            tries: 1,
            ..patient()
        },
    );
    pool.request(MetadataRequest::stat(b"/x")).await.map(drop)
}

fn says(heard: &Mutex<Vec<String>>, word: &str) -> bool {
    heard.lock().unwrap().iter().any(|line| line.contains(word))
}

/// An attacker claims in the server's name that it has no GSI.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_gsi_gives_no_password_away() {
    let dir = tempfile::tempdir().unwrap();
    super::servers::authority(&dir);
    for auth in [&b"500 what?\r\n"[..], b"504 none\r\n", b"234 tls\r\n"] {
        for with_word in [true, false] {
            let (port, heard) = listening(auth).await;
            let netrc = if with_word {
                format!("machine localhost:{port} login ann password {WORD}")
            } else {
                String::new()
            };
            let url = format!("gridftp://localhost:{port}/");
            let refused = request(&url, &netrc, |settings| {
                settings.proxy = Some(dir.path().join("proxy"));
                settings.grid = Some(dir.path().join("certificates"));
            });
            let error = refused.await.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error}");
            assert!(error.to_string().contains("clear text"), "{error}");
            assert!(says(&heard, "AUTH GSSAPI"));
            assert!(!says(&heard, "USER") && !says(&heard, "PASS"), "{heard:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_goes_in_clear_text_only_where_that_is_allowed() {
    for scheme in ["ftp", "gridftp"] {
        let (port, heard) = listening(b"500 what?\r\n").await;
        let url = format!("{scheme}://localhost:{port}/");
        let netrc = format!("machine localhost:{port} login ann password {WORD}");
        let error = request(&url, &netrc, |_| {}).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("--clear-passwords") && !text.contains(WORD),
            "{text}"
        );
        assert!(!says(&heard, WORD) && !says(&heard, "PASS"), "{heard:?}");
        // Clear-text passwords are allowed.
        drop(request(&url, &netrc, |s| s.clear_passwords = true).await);
        assert!(says(&heard, &format!("PASS {WORD}")), "{heard:?}");
        // The anonymous login works as before.
        let (port, heard) = listening(b"500 what?\r\n").await;
        drop(request(&format!("{scheme}://localhost:{port}/"), "", |_| {}).await);
        assert!(says(&heard, "USER anonymous"), "{heard:?}");
    }
}

/// A host's password is not sent to other ports of the host, and the `default` password is not sent by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_ports_and_other_hosts_are_shown_no_password() {
    for netrc in [
        format!("machine localhost login ann password {WORD}"),
        format!("machine localhost:1 login ann password {WORD}"),
        format!("default login ann password {WORD}"),
    ] {
        let (port, heard) = listening(b"500 what?\r\n").await;
        let url = format!("ftp://localhost:{port}/");
        drop(request(&url, &netrc, |s| s.clear_passwords = true).await);
        assert!(says(&heard, "USER anonymous"), "{heard:?}");
        assert!(!says(&heard, WORD) && !says(&heard, "ann"), "{heard:?}");
    }
}
