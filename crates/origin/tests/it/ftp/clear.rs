//! Passwords do not go in clear text, and nobody on the way can make a client go without what protects it.

use super::hostile::{Says, start};
use crate::servers::patient;
use esker_origin::ftp::{Ftp, Settings};
use esker_origin::{Error, Place, Pool, Question};
use esker_testkit::wait::HANG;
use std::fs;
use std::sync::{Arc, Mutex};

const WORD: &str = "s3cret-word";

/// A server that keeps what it hears, and answers AUTH with that.
async fn listening(auth: &'static [u8]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = heard.clone();
    let script = move |command: &str| {
        keep.lock().unwrap().push(command.to_owned());
        command.starts_with("AUTH").then(|| Says::plain(auth))
    };
    (start(Arc::new(script)).await, heard)
}

/// Asks that server once, with what a netrc says.
async fn ask(url: &str, netrc: &str, with: impl FnOnce(&mut Settings)) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("netrc");
    fs::write(&file, netrc).unwrap();
    super::tree::chmod(&file, 0o600);
    let mut settings = Settings {
        silence: HANG,
        netrc: Some(file),
        proxy: None,
        ..Settings::default()
    };
    with(&mut settings);
    let (place, _) = Place::parse(url).unwrap();
    let pool = Pool::new(
        Arc::new(Ftp::new(place, settings).unwrap()),
        esker_origin::Settings {
            connections: 1,
            tries: 1,
            ..patient()
        },
    );
    pool.ask(Question::stat(b"/x")).await.map(drop)
}

fn says(heard: &Mutex<Vec<String>>, word: &str) -> bool {
    heard.lock().unwrap().iter().any(|line| line.contains(word))
}

/// Somebody on the way says for the server that it has no GSI.
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
            let refused = ask(&url, &netrc, |settings| {
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
        let error = ask(&url, &netrc, |_| {}).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("--clear-passwords") && !text.contains(WORD),
            "{text}"
        );
        assert!(!says(&heard, WORD) && !says(&heard, "PASS"), "{heard:?}");
        // Where it is.
        drop(ask(&url, &netrc, |s| s.clear_passwords = true).await);
        assert!(says(&heard, &format!("PASS {WORD}")), "{heard:?}");
        // Nobody in particular goes in as before.
        let (port, heard) = listening(b"500 what?\r\n").await;
        drop(ask(&format!("{scheme}://localhost:{port}/"), "", |_| {}).await);
        assert!(says(&heard, "USER anonymous"), "{heard:?}");
    }
}

/// The password for a host goes to nobody who listens at another port of it, nor does that for any host go anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_ports_and_other_hosts_are_shown_no_password() {
    for netrc in [
        format!("machine localhost login ann password {WORD}"),
        format!("machine localhost:1 login ann password {WORD}"),
        format!("default login ann password {WORD}"),
    ] {
        let (port, heard) = listening(b"500 what?\r\n").await;
        let url = format!("ftp://localhost:{port}/");
        drop(ask(&url, &netrc, |s| s.clear_passwords = true).await);
        assert!(says(&heard, "USER anonymous"), "{heard:?}");
        assert!(!says(&heard, WORD) && !says(&heard, "ann"), "{heard:?}");
    }
}
