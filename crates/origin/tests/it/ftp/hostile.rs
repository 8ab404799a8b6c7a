//! Hostile servers: each yields a clear error in bounded time.

use crate::servers::patient;
use esker_origin::ftp::{Ftp, FtpSettings};
use esker_origin::{Error, MetadataRequest, OriginUrl, PathMetadata, Pool};
use esker_site_cache::entry::Kind;
use esker_testkit::wait::{HANG, ends, eventually_async};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server's reply to a command, sent in pieces with pauses between them.
pub(super) struct ServerReply {
    bytes: Vec<u8>,
    piece: usize,
    pause: Duration,
    /// Whether the bytes are repeated without end.
    forever: bool,
    closes: bool,
}

impl ServerReply {
    pub(super) fn plain(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            piece: usize::MAX,
            pause: Duration::ZERO,
            forever: false,
            closes: false,
        }
    }

    fn forever(bytes: &[u8]) -> Self {
        Self {
            forever: true,
            ..Self::plain(bytes)
        }
    }

    fn slowly(bytes: &[u8]) -> Self {
        Self {
            piece: 1,
            pause: Duration::from_millis(300),
            ..Self::plain(bytes)
        }
    }

    async fn send(&self, to: &mut TcpStream) -> bool {
        loop {
            for piece in self.bytes.chunks(self.piece.min(1 << 16)) {
                if to.write_all(piece).await.is_err() {
                    return false;
                }
                if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
            }
            if self.closes {
                return false;
            }
            if !self.forever {
                return true;
            }
        }
    }
}

/// The reply of a well-behaved server.
fn well_behaved(command: &str) -> ServerReply {
    let word = command.split(' ').next().unwrap_or_default();
    ServerReply::plain(match word {
        "" => b"220 hello\r\n",
        "USER" => b"331 password\r\n",
        "PASS" => b"230 in\r\n",
        "SYST" => b"215 UNIX\r\n",
        "PWD" => b"257 \"/\"\r\n",
        "FEAT" => b"211-Features\r\n MLST type*;size*;\r\n MLSC\r\n UTF8\r\n211 End\r\n",
        "TYPE" | "OPTS" => b"200 ok\r\n",
        "QUIT" => b"221 bye\r\n",
        _ => b"500 what?\r\n",
    })
}

pub(super) type Script = Arc<dyn Fn(&str) -> Option<ServerReply> + Send + Sync>;

pub(super) async fn start(script: Script) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let script = script.clone();
            tokio::spawn(async move {
                let mut io = BufReader::new(io);
                let mut line = String::new();
                loop {
                    let command = line.trim_end();
                    let says = script(command).unwrap_or_else(|| well_behaved(command));
                    if !says.send(io.get_mut()).await {
                        return;
                    }
                    line.clear();
                    if io.read_line(&mut line).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A pool whose timeouts no slow machine can reach.
fn pool(port: u16) -> Pool {
    pool_within(port, 1, HANG, HANG)
}

/// A pool with short timeouts.
fn hasty(port: u16, tries: u32) -> Pool {
    pool_within(port, tries, Duration::from_secs(1), Duration::from_secs(4))
}

fn pool_within(port: u16, tries: u32, silence: Duration, patience: Duration) -> Pool {
    let (origin_url, _) = OriginUrl::parse(&format!("ftp://127.0.0.1:{port}/")).unwrap();
    let settings = FtpSettings {
        silence,
        netrc: None,
        ..FtpSettings::default()
    };
    let ftp = Ftp::new(origin_url, settings).unwrap();
    let settings = esker_origin::Settings {
        connections: 1,
        patience,
        tries,
        ..patient()
    };
    Pool::new(Arc::new(ftp), settings)
}

/// Returns the error of the request.
async fn error(
    request: MetadataRequest,
    script: impl Fn(&str) -> Option<ServerReply> + Send + Sync + 'static,
) -> Error {
    let port = start(Arc::new(script)).await;
    said_by(&pool(port), request).await
}

/// Returns the error of the request, with short timeouts.
async fn timed_out(
    request: MetadataRequest,
    script: impl Fn(&str) -> Option<ServerReply> + Send + Sync + 'static,
) -> Error {
    let port = start(Arc::new(script)).await;
    said_by(&hasty(port, 1), request).await
}

async fn said_by(pool: &Pool, request: MetadataRequest) -> Error {
    let error = ends(pool.request(request)).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.len() < 600 && !text.contains(char::is_control),
        "{text}"
    );
    error
}

fn stat() -> MetadataRequest {
    MetadataRequest::stat(b"/dir/name")
}

/// A script that gives this reply to commands with this prefix and is well-behaved otherwise.
fn to(
    word: &'static str,
    says: fn() -> ServerReply,
) -> impl Fn(&str) -> Option<ServerReply> + Send + Sync {
    move |command| {
        let fits = match word {
            "" => command.is_empty(),
            word => command.starts_with(word),
        };
        fits.then(says)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greetings() {
    let e = error(
        stat(),
        to("", || ServerReply::plain(b"SSH-2.0-OpenSSH\r\n")),
    )
    .await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(stat(), to("", || ServerReply::forever(b"\x00\xff\x1b[2J"))).await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(stat(), to("", || ServerReply::forever(b"220-more\r\n"))).await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = timed_out(stat(), to("", || ServerReply::slowly(b"220 hello\r\n"))).await;
    assert!(matches!(e, Error::TimedOut { .. }), "{e}");
    let e = timed_out(stat(), to("", || ServerReply::plain(b""))).await;
    assert!(matches!(e, Error::TimedOut { .. }), "{e}");
    let e = error(
        stat(),
        to("", || ServerReply {
            closes: true,
            ..ServerReply::plain(b"220 hi\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Broken { .. }), "{e}");
    let e = error(
        stat(),
        to("", || ServerReply {
            closes: true,
            ..ServerReply::plain(b"421 too many\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    let e = error(
        stat(),
        to("USER", || ServerReply::plain(b"530 not you\r\n")),
    )
    .await;
    assert!(
        matches!(e, Error::Denied { .. }) && e.to_string().contains(".netrc"),
        "{e}"
    );
    let e = error(stat(), to("PASS", || ServerReply::plain(b"530 wrong\r\n"))).await;
    assert!(
        matches!(e, Error::Denied { .. }) && !e.to_string().contains("esker@"),
        "{e}"
    );
    let e = timed_out(stat(), to("FEAT", || ServerReply::forever(b"211-x\r\n"))).await;
    assert!(
        matches!(e, Error::Protocol { .. } | Error::TimedOut { .. }),
        "{e}"
    );
    // More than one reply to a command.
    let e = error(
        stat(),
        to("PASS", || {
            ServerReply::plain(b"230 in\r\n230 in\r\n250 in\r\n")
        }),
    )
    .await;
    assert!(
        matches!(e, Error::Protocol { .. } | Error::Broken { .. }),
        "{e}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies() {
    let e = error(stat(), to("MLST", || ServerReply::forever(b"250-more\r\n"))).await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || ServerReply::forever(b"250 no end of line")),
    )
    .await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(stat(), to("MLST", || ServerReply::plain(b"hello\r\n"))).await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || ServerReply::plain(b"250 no facts\r\n")),
    )
    .await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || {
            ServerReply::plain(b"250-a\r\n type=file; /dir/other\r\n250 e\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Protocol { .. }), "{e}");
    let e = timed_out(
        stat(),
        to("MLST", || {
            ServerReply::slowly(b"250-a\r\n type=file; /dir/name\r\n250 e\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::TimedOut { .. }), "{e}");
    let e = timed_out(stat(), to("MLST", || ServerReply::plain(b""))).await;
    assert!(matches!(e, Error::TimedOut { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || ServerReply::plain(b"421 going down\r\n")),
    )
    .await;
    assert!(
        matches!(e, Error::Broken { .. }) && e.to_string().contains("going down"),
        "{e}"
    );
    let e = error(stat(), to("MLST", || ServerReply::plain(b"450 later\r\n"))).await;
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || ServerReply::plain(b"550 Permission denied\r\n")),
    )
    .await;
    assert!(matches!(e, Error::Denied { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || ServerReply {
            closes: true,
            ..ServerReply::plain(b"250-a\r\n type=file;")
        }),
    )
    .await;
    assert!(matches!(e, Error::Broken { .. }), "{e}");
    // Names that are paths, and control bytes, in a listing.
    let list = |bytes: &'static [u8]| {
        let request = MetadataRequest::list(b"/dir");
        let script = move |command: &str| {
            if command.starts_with("MLST") {
                return Some(ServerReply::plain(b"250-a\r\n type=dir; /dir\r\n250 e\r\n"));
            }
            command
                .starts_with("MLSC")
                .then(|| ServerReply::plain(bytes))
        };
        async move {
            let port = start(Arc::new(script)).await;
            ends(pool(port).request(request)).await
        }
    };
    let found = list(b"250-a\r\n type=cdir; .\r\n type=file; ../../etc\r\n type=file; ..\r\n type=file; a\x1b\r\n type=file; b\r\n250 e\r\n");
    let PathMetadata::Listing {
        children, complete, ..
    } = found.await.unwrap()
    else {
        panic!()
    };
    assert_eq!(children.len(), 1);
    assert!(!complete);
}

/// An endless listing takes the time limit of its request and then the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_listings() {
    let lines: Vec<u8> = (0..1000)
        .flat_map(|n| format!(" type=file; {n}\r\n").into_bytes())
        .collect();
    let script = move |command: &str| {
        if command.starts_with("MLST") {
            return Some(ServerReply::plain(b"250-a\r\n type=dir; /dir\r\n250 e\r\n"));
        }
        command.starts_with("MLSC").then(|| {
            let bytes = [b"250-a\r\n type=cdir; .\r\n", &lines[..]].concat();
            ServerReply::forever(&bytes)
        })
    };
    let port = start(Arc::new(script)).await;
    let pool = hasty(port, 1);
    let e = ends(pool.request(MetadataRequest::list(b"/dir")))
        .await
        .unwrap_err();
    assert!(
        matches!(e, Error::TimedOut { .. } | Error::Protocol { .. }),
        "{e}"
    );
    // The connection was abandoned; the next one answers.
    let found = eventually_async(async || pool.request(MetadataRequest::stat(b"/dir")).await).await;
    assert!(matches!(found, PathMetadata::Present(a) if a.kind == Kind::Directory));
}

/// A capability that FEAT announces but the server lacks is replaced by another command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lies_about_what_it_can_do() {
    let script = |command: &str| {
        let (word, path) = command.split_once(' ').unwrap_or((command, ""));
        let says: &[u8] = match (word, path) {
            ("SIZE", "/dir/name") => b"213 12\r\n",
            ("MDTM", "/dir/name") => b"213 20200102030405\r\n",
            ("CWD", "/dir") => b"250 there\r\n",
            ("SIZE" | "MDTM" | "CWD", _) => b"550 No such file or directory\r\n",
            _ => return None,
        };
        Some(ServerReply::plain(says))
    };
    let port = start(Arc::new(script)).await;
    let pool = pool(port);
    let PathMetadata::Present(found) = pool.request(stat()).await.unwrap() else {
        panic!()
    };
    assert_eq!((found.kind, found.size), (Kind::File, Some(12)));
    assert_eq!(found.modified, Some(1_577_934_245_000_000_000));
    let found = pool.request(MetadataRequest::stat(b"/dir")).await.unwrap();
    assert!(matches!(found, PathMetadata::Present(a) if a.kind == Kind::Directory));
    let found = pool
        .request(MetadataRequest::stat(b"/nothing"))
        .await
        .unwrap();
    assert_eq!(found, PathMetadata::Absent);
    let about = pool.report().about;
    assert!(about.contains("attributes by SIZE, MDTM, CWD"), "{about}");
}

/// A server that discards commands sent before its reply gets one command at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_asked_ahead() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut io, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                let mut command = String::new();
                loop {
                    let says = match command.split_once(' ') {
                        Some(("MLST", path)) => {
                            let text = format!("250-a\r\n type=file;size=3; {path}\r\n250 e\r\n");
                            ServerReply::plain(text.as_bytes())
                        }
                        _ => well_behaved(&command),
                    };
                    if !says.send(&mut io).await {
                        return;
                    }
                    let Ok(count @ 1..) = io.read(&mut bytes).await else {
                        return;
                    };
                    let text = String::from_utf8_lossy(&bytes[..count]);
                    command = text.lines().next().unwrap_or_default().to_owned();
                }
            });
        }
    });
    let (origin_url, _) = OriginUrl::parse(&format!("ftp://127.0.0.1:{port}/")).unwrap();
    let settings = FtpSettings {
        netrc: None,
        ..FtpSettings::default()
    };
    let pool = Pool::new(Arc::new(Ftp::new(origin_url, settings).unwrap()), patient());
    let asked = (0..100).map(|n| {
        let pool = pool.clone();
        async move {
            pool.request(MetadataRequest::stat(format!("/{n}").as_bytes()))
                .await
        }
    });
    for found in futures_util::future::join_all(asked).await {
        assert!(matches!(found, Ok(PathMetadata::Present(_))), "{found:?}");
    }
    let about = pool.report().about;
    assert!(about.contains("one command at a time"), "{about}");
}

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Random bytes composed of parts of server replies.
fn babble(dice: &mut Dice) -> ServerReply {
    const PARTS: [&[u8]; 20] = [
        b"250-a\r\n",
        b"250 b\r\n",
        b" type=file;size=1; /dir/name\r\n",
        b" type=dir; /dir\r\n",
        b" type=cdir; .\r\n",
        b"-rw-r--r-- 1 a b 6 Feb  3  2001 name\r\n",
        b"drwxr-xr-x 1 a b 6 Feb  3  2001 .\r\n",
        b"213-status\r\n",
        b"213 end\r\n",
        b"213 12\r\n",
        b"550 no\r\n",
        b"500 what?\r\n",
        b"421 bye\r\n",
        b"450 later\r\n",
        b"150 here it comes\r\n",
        b"229 (|||1|)\r\n",
        b"227 (127,0,0,1,0,1)\r\n",
        b"\r\n",
        b"\x00\xff\n",
        b"999 ",
    ];
    let count = dice.roll(6);
    let bytes: Vec<u8> = (0..count)
        .flat_map(|_| PARTS[dice.roll(20)].to_vec())
        .collect();
    ServerReply {
        closes: dice.roll(12) == 0,
        forever: dice.roll(30) == 0 && !bytes.is_empty(),
        piece: 1 + dice.roll(20),
        ..ServerReply::plain(&bytes)
    }
}

/// For random server replies, each request ends, and its response is about the requested path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn babblers() {
    let one = async |seed: u64| {
        let dice = std::sync::Mutex::new(Dice(seed * 2_654_435_761 + 88_172_645_463_325_252));
        let script = move |command: &str| {
            let mut dice = dice.lock().unwrap();
            let is_login = ["", "USER", "PASS", "SYST", "TYPE", "OPTS", "PWD", "FEAT"]
                .contains(&command.split(' ').next().unwrap_or_default());
            let often = if is_login { 40 } else { 2 };
            (dice.roll(often) == 0).then(|| babble(&mut dice))
        };
        let port = start(Arc::new(script)).await;
        let pool = hasty(port, 2);
        let asked = (0..20).map(|n| {
            let pool = pool.clone();
            let request = match n % 3 {
                0 => MetadataRequest::list(b"/dir"),
                1 => stat(),
                _ => MetadataRequest::stat(format!("/{n}").as_bytes()),
            };
            async move { pool.request(request).await }
        });
        for found in ends(futures_util::future::join_all(asked)).await {
            if let Err(error) = found {
                assert!(!error.to_string().contains(char::is_control), "{error}");
            }
        }
        pool.close().await;
    };
    for first in 0..5 {
        let seeds = (0..20).map(|n| one(first * 20 + n));
        futures_util::future::join_all(seeds).await;
    }
}

/// A server that breaks the GSI handshake or answers in clear text after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn babblers_of_gsi() {
    let dir = tempfile::tempdir().unwrap();
    super::servers::authority(&dir);
    let replies: [&'static [u8]; 6] = [
        b"335 ADAT=!!!\r\n",
        b"335 ADAT=AAAA\r\n",
        b"335 ADAT=\r\n",
        b"335 more\r\n",
        b"235 done\r\n",
        b"535 no\r\n",
    ];
    for says in replies {
        let script = move |command: &str| {
            let word = command.split(' ').next().unwrap_or_default();
            match word {
                "AUTH" => Some(ServerReply::plain(b"334 go on\r\n")),
                "ADAT" => Some(ServerReply::plain(says)),
                _ => None,
            }
        };
        let port = start(Arc::new(script)).await;
        let (origin_url, _) = OriginUrl::parse(&format!("gridftp://localhost:{port}/")).unwrap();
        let settings = FtpSettings {
            silence: HANG,
            netrc: None,
            proxy: Some(dir.path().join("proxy")),
            grid: Some(dir.path().join("certificates")),
            ..FtpSettings::default()
        };
        let ftp = Ftp::new(origin_url, settings).unwrap();
        let pool = Pool::new(Arc::new(ftp), patient());
        let error = pool.request(stat()).await.unwrap_err();
        let known = matches!(error, Error::Protocol { .. } | Error::Denied { .. });
        assert!(known && !error.is_transient(), "{error}");
    }
}
