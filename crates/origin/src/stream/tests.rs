//! The stream against a model: random chains, input split anywhere, connections that end anywhere.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A line-based protocol; a line that begins with `.` ends a reply.
struct LineCodec;

impl Codec for LineCodec {
    type Item = Bytes;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Bytes>, Fault> {
        let Some(end) = bytes.iter().position(|b| *b == b'\n') else {
            return Ok(None);
        };
        let line = bytes.split_to(end + 1).freeze();
        if line.starts_with(b"!") {
            return Err(Fault::Protocol("!".into()));
        }
        Ok(Some(line.slice(..end)))
    }

    fn ends(item: &Bytes) -> bool {
        item.starts_with(b".")
    }
}

fn limits(in_flight: usize) -> Limits {
    Limits {
        in_flight,
        silence: Duration::from_secs(5),
        grace: Duration::from_mins(1),
        slowest: 1,
        buffer: 1000,
        reply: 1 << 20,
        unwanted: 1 << 16,
    }
}

/// Answers the command `N:L` with L lines and an end that names N, in pieces of the given sizes; ends after `until` bytes.
async fn server(mut io: DuplexStream, mut pieces: VecDeque<usize>, until: usize) {
    let mut input = BytesMut::new();
    let mut output = Vec::new();
    let mut sent = 0;
    loop {
        while let Some(end) = input.iter().position(|b| *b == b'\n') {
            let line = input.split_to(end + 1);
            let text = String::from_utf8(line.to_vec()).unwrap();
            let (name, lines) = text.trim().split_once(':').unwrap();
            for at in 0..lines.parse::<usize>().unwrap() {
                output.extend_from_slice(format!("{name} {at}\n").as_bytes());
            }
            output.extend_from_slice(format!(".{name}\n").as_bytes());
        }
        while !output.is_empty() {
            let piece = pieces.pop_front().unwrap_or(7);
            pieces.push_back(piece);
            let piece = piece.clamp(1, output.len()).min(until - sent);
            if piece == 0 {
                return;
            }
            let bytes: Vec<u8> = output.drain(..piece).collect();
            if io.write_all(&bytes).await.is_err() {
                return;
            }
            sent += piece;
            tokio::task::yield_now().await;
        }
        if io.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Builds one command with a parser that counts and checks the lines of its reply.
fn step(name: usize, lines: usize) -> (String, impl FnMut(Bytes) -> Result<bool, String> + Send) {
    let mut seen = 0;
    let check = move |line: Bytes| {
        let line = String::from_utf8(line.to_vec()).unwrap();
        if line == format!(".{name}") {
            return if seen == lines {
                Ok(true)
            } else {
                Err(format!("{seen} of {lines}"))
            };
        }
        if line != format!("{name} {seen}") {
            return Err(line);
        }
        seen += 1;
        Ok(false)
    };
    (format!("{name}:{lines}\n"), check)
}

fn wrong(why: &str) -> Error {
    Error::Unsupported {
        origin: "model".into(),
        why: why.into(),
    }
}

/// A chain in the model.
#[derive(Debug, Clone)]
struct Plan {
    /// Number of lines in the reply to each command that is sent at once.
    commands: Vec<usize>,
    /// A further command that waits for those replies.
    then: Option<usize>,
    /// Whether the chain is answered after the first line of the first reply.
    early: bool,
}

fn chain(name: usize, plan: &Plan) -> Chain<LineCodec, usize> {
    let mut chain: Option<Chain<LineCodec, usize>> = None;
    let count = plan.commands.len();
    for (at, lines) in plan.commands.iter().enumerate() {
        let (command, mut check) = step(name * 100 + at, *lines);
        let (then, early) = (plan.then, plan.early);
        let parser = move |line: Bytes| match check(line) {
            Err(why) => Verdict::Fail(wrong(&why)),
            Ok(_) if early => Verdict::Done(name),
            Ok(true) if at + 1 == count => match then {
                None => Verdict::Done(name),
                Some(lines) => {
                    let (command, mut check) = step(name * 100 + 99, lines);
                    Verdict::Then(Chain::new(command, move |line| match check(line) {
                        Err(why) => Verdict::Fail(wrong(&why)),
                        Ok(true) => Verdict::Done(name),
                        Ok(false) => Verdict::Next,
                    }))
                }
            },
            Ok(_) => Verdict::Next,
        };
        chain = Some(match chain {
            None => Chain::new(command, parser),
            Some(chain) => chain.and(command, parser),
        });
    }
    chain.unwrap()
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let plan = (
        prop::collection::vec(0_usize..5, 1..4),
        prop::option::of(0_usize..5),
        prop::bool::weighted(0.2),
    );
    let plan = plan.prop_map(|(commands, then, early)| Plan {
        commands,
        then,
        early,
    });
    prop::collection::vec(plan, 1..30)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    /// Each chain gets its own result or, if the connection ends, a transient error, however the input is split.
    #[test]
    fn replies_find_their_chains(
        plans in plans(),
        pieces in prop::collection::vec(1_usize..40, 1..20),
        until in prop_oneof![Just(usize::MAX), 0_usize..2000],
        width in 1_usize..20,
        dropped in prop::collection::vec(any::<bool>(), 30),
    ) {
        run(async {
            let (near, far) = duplex(64);
            tokio::spawn(server(far, pieces.into(), until));
            let stream = Arc::new(Stream::new(near, LineCodec, "model", limits(width)));
            let mut asked = Vec::new();
            for (name, plan) in plans.iter().enumerate() {
                let (stream, chain) = (stream.clone(), chain(name, plan));
                let task = tokio::spawn(async move { stream.request(chain).await });
                if dropped[name] && name % 3 == 0 {
                    tokio::task::yield_now().await;
                    task.abort();
                } else {
                    asked.push((name, task));
                }
            }
            for (name, task) in asked {
                match task.await.unwrap() {
                    Ok(answer) => prop_assert_eq!(answer, name),
                    Err(error) => {
                        prop_assert!(until < usize::MAX && error.is_transient(), "{}", error);
                        prop_assert!(stream.is_broken());
                    }
                }
            }
            if until == usize::MAX {
                prop_assert!(!stream.is_broken());
            }
            Ok(())
        })?;
    }
}

#[test]
fn as_many_commands_are_in_flight_as_may_be_and_go_out_together() {
    run(async {
        let (near, mut far) = duplex(1 << 16);
        let stream = Arc::new(Stream::new(near, LineCodec, "model", limits(64)));
        let plan = Plan {
            commands: vec![0],
            then: None,
            early: false,
        };
        let tasks: Vec<_> = (0..100)
            .map(|name| {
                let (stream, chain) = (stream.clone(), chain(name, &plan));
                tokio::spawn(async move { stream.request(chain).await })
            })
            .collect();
        // No reply before 64 commands have arrived, and no 65th command before a reply.
        let mut input = Vec::with_capacity(1 << 16);
        let mut reads = 0;
        let count = |input: &[u8]| input.split(|b| *b == b'\n').count() - 1;
        while count(&input) < 64 {
            far.read_buf(&mut input).await.unwrap();
            reads += 1;
        }
        assert!(reads <= 3, "{reads} writes for 64 commands");
        let more = tokio::time::timeout(Duration::from_secs(1), far.read_u8()).await;
        assert!(more.is_err());
        far.write_all(b".0\n").await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'6');
        drop(far);
        let mut answered = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => answered += 1,
                Err(error) => assert!(error.is_transient()),
            }
        }
        assert_eq!(answered, 1);
    });
}

#[test]
fn a_chain_that_waits_for_its_own_reply_holds_nobody_up() {
    run(async {
        let (near, far) = duplex(1 << 16);
        tokio::spawn(server(far, VecDeque::new(), usize::MAX));
        let stream = Stream::new(near, LineCodec, "model", limits(2));
        let two = Plan {
            commands: vec![1],
            then: Some(3),
            early: false,
        };
        let one = Plan {
            commands: vec![0],
            then: None,
            early: false,
        };
        let order = std::sync::Mutex::new(Vec::new());
        let request = async |name, plan| {
            stream.request(chain(name, plan)).await.unwrap();
            order.lock().unwrap().push(name);
        };
        tokio::join!(request(1, &two), request(2, &one), request(3, &one));
        assert_eq!(order.into_inner().unwrap(), [2, 3, 1]);
    });
}

#[test]
fn silence_slowness_and_nonsense_end_it() {
    let request = |babble: &'static [u8], every: Duration| {
        run(async move {
            let (near, mut far) = duplex(1 << 16);
            tokio::spawn(async move {
                // The server is silent until the first request.
                far.read_u8().await.unwrap();
                loop {
                    if babble.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    if far.write_all(babble).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(every).await;
                }
            });
            let began = tokio::time::Instant::now();
            let stream = Stream::new(near, LineCodec, "model", limits(8));
            let chain = || {
                Chain::<LineCodec, ()>::new("1:1\n", |_| Verdict::Next)
                    .and("2:1\n", |_| Verdict::Next)
            };
            let (first, second) = tokio::join!(stream.request(chain()), stream.request(chain()));
            assert!(stream.is_broken());
            let third = stream.request(chain()).await.unwrap_err();
            assert!(third.is_transient(), "{third}");
            let secs = began.elapsed().as_secs();
            (first.unwrap_err(), second.unwrap_err(), secs)
        })
    };
    // A silent server.
    let (first, second, secs) = request(b"", Duration::ZERO);
    assert!(matches!(first, Error::TimedOut { .. }), "{first}");
    assert!(matches!(second, Error::TimedOut { .. }), "{second}");
    assert_eq!(secs, 5);
    // A line of two bytes every four seconds.
    let (first, _, secs) = request(b"x\n", Duration::from_secs(4));
    assert!(matches!(first, Error::TimedOut { .. }), "{first}");
    assert!((60..70).contains(&secs), "{secs}");
    // A line without an end: only the request whose reply it is gets the protocol error.
    let (first, second, _) = request(&[b'x'; 600], Duration::from_millis(1));
    assert!(matches!(first, Error::Protocol { .. }), "{first}");
    assert!(matches!(second, Error::Broken { .. }), "{second}");
    let (first, second, _) = request(b"!\n", Duration::from_secs(1));
    assert!(matches!(first, Error::Protocol { .. }), "{first}");
    assert!(matches!(second, Error::Broken { .. }), "{second}");
    // An endless reply.
    let (first, second, _) = request(b"x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n", Duration::ZERO);
    assert!(matches!(first, Error::Protocol { .. }), "{first}");
    assert!(matches!(second, Error::Broken { .. }), "{second}");
    // A reply that ends without a result, and one without a request.
    let (first, ..) = request(b".\n", Duration::ZERO);
    assert!(matches!(first, Error::Protocol { .. }), "{first}");
}

#[test]
fn what_is_given_up_ends_for_all() {
    run(async {
        let (near, _far) = duplex(1 << 16);
        let stream = Stream::new(near, LineCodec, "model", limits(8));
        let request = stream.request(Chain::<LineCodec, ()>::new("1:1\n", |_| Verdict::Next));
        let (answer, ()) = tokio::join!(request, async { stream.give_up() });
        assert!(matches!(answer, Err(Error::Broken { .. })), "{answer:?}");
        assert!(stream.is_broken());
    });
}

#[test]
fn a_working_server_may_be_silent() {
    run(async {
        let (near, _far) = duplex(1 << 16);
        let stream = Stream::new(near, LineCodec, "model", limits(8));
        let began = tokio::time::Instant::now();
        let request = stream.request(Chain::<LineCodec, ()>::new("1:1\n", |_| Verdict::Next));
        let work = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                stream.is_at_work();
            }
        };
        let (answer, ()) = tokio::join!(request, work);
        assert!(matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}");
        assert!((100..=110).contains(&began.elapsed().as_secs()));
    });
}
