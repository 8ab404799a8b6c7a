//! A file of a spool that several users write to, as a server reads it and brings it to its database.

use esker_engine::{Clock, Engine, NoArchive, Settings};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::object::Principal;
use esker_model::{GraphRead as _, GraphWrite as _, Schema};
use esker_record::{Ended, Run, RunOwner, Types, Use, batch, hostile, new_id};
use esker_store::memory::MemoryStore;
use std::sync::{Arc, OnceLock};

/// A file that nobody but its owner may read.
const SECRET: &str = "/secret";
/// A file that only another user's run has written.
const THEIRS: &str = "/theirs";
/// Whose both are.
const OWNER: u32 = 1;

struct Still;

impl Clock for Still {
    fn now_millis(&self) -> u64 {
        1_795_000_000_000
    }

    fn monotonic_micros(&self) -> u64 {
        0
    }
}

struct Database {
    engine: Engine,
    schema: Arc<Schema>,
    types: Types,
    /// The id of the other user's run.
    theirs: String,
}

fn ended(mut run: Run) -> Run {
    run.id = new_id(run.start, &run.host, run.pid, run.uid);
    run.ended = Some(Ended::default());
    run
}

impl Database {
    fn new() -> Self {
        let engine = Engine::open(
            Arc::new(MemoryStore::new()),
            Arc::new(Still),
            Arc::new(NoArchive),
            Settings::default(),
        );
        let engine = engine.expect("a database in memory");
        let schema = engine.schema().expect("it has a schema");
        let types = Types::resolve(&schema).expect("with the types of runs");
        let path = NamePath::parse(SECRET.as_bytes()).expect("a path");
        let make = Change::Create(path, NewFile::new(0o100_600, OWNER, OWNER));
        let made = engine.change(None, &[make]).expect("a change is made");
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        let theirs = ended(Run {
            uid: OWNER,
            start: 1_790_000_000_000_000_000,
            outputs: vec![Use {
                path: THEIRS.into(),
                ..Use::default()
            }],
            ..Run::default()
        });
        let written = batch(&theirs, &types).expect("a run of theirs");
        engine.apply(written).expect("is written");
        Self {
            engine,
            schema,
            types,
            theirs: theirs.id,
        }
    }
}

fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(Database::new)
}

/// A file is a run, goes on, or is refused; a run is written and read back, makes the same batch each time, and says nothing of what its
/// user may not see or write.
pub(crate) fn check(bytes: &[u8]) {
    read(bytes);
    // Past the hashes, too: each line gets the one that it should have.
    let lines = bytes.split(|b| *b == b'\n');
    let sealed: Vec<u8> = lines.flat_map(hostile::line).collect();
    read(&sealed);
}

fn read(bytes: &[u8]) {
    let run = match hostile::run_of(bytes) {
        Ok(Some(run)) => run,
        Ok(None) => return,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!(run.ended.is_some());
    let line = hostile::line_of(&run).expect("a run is written");
    assert_eq!(hostile::run_of(&line).as_ref(), Ok(&Some(run.clone())));
    let types = &database().types;
    match batch(&run, types) {
        Ok(made) => {
            let again = batch(&run, types).expect("as before");
            assert_eq!(format!("{made:?}"), format!("{again:?}"));
        }
        Err(e) => assert!(!e.to_string().is_empty()),
    }
    // The number of the root of all rights, and of whoever has the files, may say more.
    if run.uid > OWNER {
        on_behalf(&ended(run));
    }
}

fn on_behalf(run: &Run) {
    let Database {
        engine,
        schema,
        theirs,
        ..
    } = database();
    let user = i64::from(run.uid);
    let owner = RunOwner {
        principal: Principal {
            uid: user,
            gids: vec![user],
        },
        name: None,
    };
    let allowed = hostile::allowed(&owner, engine, schema, run);
    let allowed = match allowed.expect("a database in memory answers") {
        Ok(allowed) => allowed,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert_eq!((&allowed.id, allowed.uid), (&run.id, run.uid));
    assert_eq!(allowed.user, None);
    assert_ne!(allowed.parent.as_ref(), Some(theirs));
    for used in allowed.inputs.iter().chain(&allowed.outputs) {
        assert_ne!(used.path, SECRET);
        assert!(used.path != THEIRS || used.tags.is_empty());
    }
}
