//! Servers that no one should meet: whatever they say, there is a clear error, and nobody is waited for without end.

use crate::servers::patient;
use esker_origin::ftp::{Ftp, Settings};
use esker_origin::{Error, Found, Place, Pool, Question};
use esker_site_cache::entry::Kind;
use esker_testkit::wait::{HANG, ends, eventually_async};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a server says to a command; what it sends comes in pieces with pauses between.
pub(super) struct Says {
    bytes: Vec<u8>,
    piece: usize,
    pause: Duration,
    /// Again and again.
    forever: bool,
    closes: bool,
}

impl Says {
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

/// What a decent server would say.
fn decent(command: &str) -> Says {
    let word = command.split(' ').next().unwrap_or_default();
    Says::plain(match word {
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

pub(super) type Script = Arc<dyn Fn(&str) -> Option<Says> + Send + Sync>;

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
                    let says = script(command).unwrap_or_else(|| decent(command));
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

/// Whose time-outs no slow machine could reach.
fn pool(port: u16) -> Pool {
    pool_within(port, 1, HANG, HANG)
}

/// Of little patience.
fn hasty(port: u16, tries: u32) -> Pool {
    pool_within(port, tries, Duration::from_secs(1), Duration::from_secs(4))
}

fn pool_within(port: u16, tries: u32, silence: Duration, patience: Duration) -> Pool {
    let (place, _) = Place::parse(&format!("ftp://127.0.0.1:{port}/")).unwrap();
    let settings = Settings {
        silence,
        netrc: None,
        ..Settings::default()
    };
    let ftp = Ftp::new(place, settings).unwrap();
    let settings = esker_origin::Settings {
        connections: 1,
        patience,
        tries,
        ..patient()
    };
    Pool::new(Arc::new(ftp), settings)
}

/// The error that comes of it.
async fn error(
    question: Question,
    script: impl Fn(&str) -> Option<Says> + Send + Sync + 'static,
) -> Error {
    let port = start(Arc::new(script)).await;
    said_by(&pool(port), question).await
}

/// The error of who is not waited for.
async fn late(
    question: Question,
    script: impl Fn(&str) -> Option<Says> + Send + Sync + 'static,
) -> Error {
    let port = start(Arc::new(script)).await;
    said_by(&hasty(port, 1), question).await
}

async fn said_by(pool: &Pool, question: Question) -> Error {
    let error = ends(pool.ask(question)).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.len() < 600 && !text.contains(char::is_control),
        "{text}"
    );
    error
}

fn stat() -> Question {
    Question::stat(b"/dir/name")
}

/// Says this to whatever begins so, and is decent otherwise.
fn to(word: &'static str, says: fn() -> Says) -> impl Fn(&str) -> Option<Says> + Send + Sync {
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
    let e = error(stat(), to("", || Says::plain(b"SSH-2.0-OpenSSH\r\n"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(stat(), to("", || Says::forever(b"\x00\xff\x1b[2J"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(stat(), to("", || Says::forever(b"220-more\r\n"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = late(stat(), to("", || Says::slowly(b"220 hello\r\n"))).await;
    assert!(matches!(e, Error::Late { .. }), "{e}");
    let e = late(stat(), to("", || Says::plain(b""))).await;
    assert!(matches!(e, Error::Late { .. }), "{e}");
    let e = error(
        stat(),
        to("", || Says {
            closes: true,
            ..Says::plain(b"220 hi\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Broken { .. }), "{e}");
    let e = error(
        stat(),
        to("", || Says {
            closes: true,
            ..Says::plain(b"421 too many\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    let e = error(stat(), to("USER", || Says::plain(b"530 not you\r\n"))).await;
    assert!(
        matches!(e, Error::Denied { .. }) && e.to_string().contains(".netrc"),
        "{e}"
    );
    let e = error(stat(), to("PASS", || Says::plain(b"530 wrong\r\n"))).await;
    assert!(
        matches!(e, Error::Denied { .. }) && !e.to_string().contains("esker@"),
        "{e}"
    );
    let e = late(stat(), to("FEAT", || Says::forever(b"211-x\r\n"))).await;
    assert!(
        matches!(e, Error::Nonsense { .. } | Error::Late { .. }),
        "{e}"
    );
    // More than one reply to a command.
    let e = error(
        stat(),
        to("PASS", || Says::plain(b"230 in\r\n230 in\r\n250 in\r\n")),
    )
    .await;
    assert!(
        matches!(e, Error::Nonsense { .. } | Error::Broken { .. }),
        "{e}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies() {
    let e = error(stat(), to("MLST", || Says::forever(b"250-more\r\n"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(stat(), to("MLST", || Says::forever(b"250 no end of line"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(stat(), to("MLST", || Says::plain(b"hello\r\n"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(stat(), to("MLST", || Says::plain(b"250 no facts\r\n"))).await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || {
            Says::plain(b"250-a\r\n type=file; /dir/other\r\n250 e\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Nonsense { .. }), "{e}");
    let e = late(
        stat(),
        to("MLST", || {
            Says::slowly(b"250-a\r\n type=file; /dir/name\r\n250 e\r\n")
        }),
    )
    .await;
    assert!(matches!(e, Error::Late { .. }), "{e}");
    let e = late(stat(), to("MLST", || Says::plain(b""))).await;
    assert!(matches!(e, Error::Late { .. }), "{e}");
    let e = error(stat(), to("MLST", || Says::plain(b"421 going down\r\n"))).await;
    assert!(
        matches!(e, Error::Broken { .. }) && e.to_string().contains("going down"),
        "{e}"
    );
    let e = error(stat(), to("MLST", || Says::plain(b"450 later\r\n"))).await;
    assert!(matches!(e, Error::Busy { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || Says::plain(b"550 Permission denied\r\n")),
    )
    .await;
    assert!(matches!(e, Error::Denied { .. }), "{e}");
    let e = error(
        stat(),
        to("MLST", || Says {
            closes: true,
            ..Says::plain(b"250-a\r\n type=file;")
        }),
    )
    .await;
    assert!(matches!(e, Error::Broken { .. }), "{e}");
    // Names that are paths, and control bytes, in a listing.
    let list = |bytes: &'static [u8]| {
        let question = Question::list(b"/dir");
        let script = move |command: &str| {
            if command.starts_with("MLST") {
                return Some(Says::plain(b"250-a\r\n type=dir; /dir\r\n250 e\r\n"));
            }
            command.starts_with("MLSC").then(|| Says::plain(bytes))
        };
        async move {
            let port = start(Arc::new(script)).await;
            ends(pool(port).ask(question)).await
        }
    };
    let found = list(b"250-a\r\n type=cdir; .\r\n type=file; ../../etc\r\n type=file; ..\r\n type=file; a\x1b\r\n type=file; b\r\n250 e\r\n");
    let Found::Listing {
        children, complete, ..
    } = found.await.unwrap()
    else {
        panic!()
    };
    assert_eq!(children.len(), 1);
    assert!(!complete);
}

/// A listing that never ends costs what the question's patience allows, and then the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_listings() {
    let lines: Vec<u8> = (0..1000)
        .flat_map(|n| format!(" type=file; {n}\r\n").into_bytes())
        .collect();
    let script = move |command: &str| {
        if command.starts_with("MLST") {
            return Some(Says::plain(b"250-a\r\n type=dir; /dir\r\n250 e\r\n"));
        }
        command.starts_with("MLSC").then(|| {
            let bytes = [b"250-a\r\n type=cdir; .\r\n", &lines[..]].concat();
            Says::forever(&bytes)
        })
    };
    let port = start(Arc::new(script)).await;
    let pool = hasty(port, 1);
    let e = ends(pool.ask(Question::list(b"/dir"))).await.unwrap_err();
    assert!(
        matches!(e, Error::Late { .. } | Error::Nonsense { .. }),
        "{e}"
    );
    // The connection that it was on is given up, and the next one answers.
    let found = eventually_async(async || pool.ask(Question::stat(b"/dir")).await).await;
    assert!(matches!(found, Found::Present(a) if a.kind == Kind::Directory));
}

/// What FEAT promises and the server does not do is done in another way.
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
        Some(Says::plain(says))
    };
    let port = start(Arc::new(script)).await;
    let pool = pool(port);
    let Found::Present(found) = pool.ask(stat()).await.unwrap() else {
        panic!()
    };
    assert_eq!((found.kind, found.size), (Kind::File, Some(12)));
    assert_eq!(found.modified, Some(1_577_934_245_000_000_000));
    let found = pool.ask(Question::stat(b"/dir")).await.unwrap();
    assert!(matches!(found, Found::Present(a) if a.kind == Kind::Directory));
    let found = pool.ask(Question::stat(b"/nothing")).await.unwrap();
    assert_eq!(found, Found::Absent);
    let about = pool.report().about;
    assert!(about.contains("attributes by SIZE, MDTM, CWD"), "{about}");
}

/// A server that throws away what comes after a command before it has replied is asked one thing at a time.
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
                            Says::plain(text.as_bytes())
                        }
                        _ => decent(&command),
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
    let (place, _) = Place::parse(&format!("ftp://127.0.0.1:{port}/")).unwrap();
    let settings = Settings {
        netrc: None,
        ..Settings::default()
    };
    let pool = Pool::new(Arc::new(Ftp::new(place, settings).unwrap()), patient());
    let asked = (0..100).map(|n| {
        let pool = pool.clone();
        async move { pool.ask(Question::stat(format!("/{n}").as_bytes())).await }
    });
    for found in futures_util::future::join_all(asked).await {
        assert!(matches!(found, Ok(Found::Present(_))), "{found:?}");
    }
    let about = pool.report().about;
    assert!(about.contains("one command at a time"), "{about}");
}

/// Numbers that look like chance, the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Anything, made of what servers say.
fn babble(dice: &mut Dice) -> Says {
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
    Says {
        closes: dice.roll(12) == 0,
        forever: dice.roll(30) == 0 && !bytes.is_empty(),
        piece: 1 + dice.roll(20),
        ..Says::plain(&bytes)
    }
}

/// Whatever a server says, each question ends, and what is answered is what was asked about.
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
            let question = match n % 3 {
                0 => Question::list(b"/dir"),
                1 => stat(),
                _ => Question::stat(format!("/{n}").as_bytes()),
            };
            async move { pool.ask(question).await }
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

/// A server that makes nonsense of GSI's handshake, or answers in the open after it.
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
                "AUTH" => Some(Says::plain(b"334 go on\r\n")),
                "ADAT" => Some(Says::plain(says)),
                _ => None,
            }
        };
        let port = start(Arc::new(script)).await;
        let (place, _) = Place::parse(&format!("gridftp://localhost:{port}/")).unwrap();
        let settings = Settings {
            silence: HANG,
            netrc: None,
            proxy: Some(dir.path().join("proxy")),
            grid: Some(dir.path().join("certificates")),
            ..Settings::default()
        };
        let ftp = Ftp::new(place, settings).unwrap();
        let pool = Pool::new(Arc::new(ftp), patient());
        let error = pool.ask(stat()).await.unwrap_err();
        let known = matches!(error, Error::Nonsense { .. } | Error::Denied { .. });
        assert!(known && !error.is_passing(), "{error}");
    }
}
