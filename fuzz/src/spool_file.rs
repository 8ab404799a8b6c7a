//! Files of a spool that several users write to, as a server reads them and applies them to its database.

use esker_engine::{Clock, Engine, NoArchive, Settings};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::object::Principal;
use esker_model::{GraphRead as _, GraphWrite as _, Schema};
use esker_record::{Ended, Run, RunOwner, Types, Use, batch, hostile, new_id};
use esker_store::memory::MemoryStore;
use std::sync::{Arc, OnceLock};

/// Path of a file that only its owner may read.
const SECRET_FILE: &str = "/secret";
/// Path of a file that only another user's run has written.
const RECORDED_FILE: &str = "/theirs";
/// Uid of the owner of both files.
const OWNER: u32 = 1;

struct FixedClock;

impl Clock for FixedClock {
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
    owner_run_id: String,
}

fn finish(mut run: Run) -> Run {
    run.id = new_id(run.start, &run.host, run.pid, run.uid);
    run.ended = Some(Ended::default());
    run
}

impl Database {
    fn new() -> Self {
        let engine = Engine::open(
            Arc::new(MemoryStore::new()),
            Arc::new(FixedClock),
            Arc::new(NoArchive),
            Settings::default(),
        );
        let engine = engine.expect("a database in memory");
        let schema = engine.schema().expect("it has a schema");
        let types = Types::resolve(&schema).expect("with the types of runs");
        let path = NamePath::parse(SECRET_FILE.as_bytes()).expect("a path");
        let make = Change::Create(path, NewFile::new(0o100_600, OWNER, OWNER));
        let made = engine.change(None, &[make]).expect("a change is made");
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        let owner_run = finish(Run {
            uid: OWNER,
            start: 1_790_000_000_000_000_000,
            outputs: vec![Use {
                path: RECORDED_FILE.into(),
                ..Use::default()
            }],
            ..Run::default()
        });
        let written = batch(&owner_run, &types).expect("a run of theirs");
        engine.apply(written).expect("is written");
        Self {
            engine,
            schema,
            types,
            owner_run_id: owner_run.id,
        }
    }
}

fn database() -> &'static Database {
    static DATABASE: OnceLock<Database> = OnceLock::new();
    DATABASE.get_or_init(Database::new)
}

/// Checks a spool file: it is a run, an unfinished run, or refused. A run is written and read back, makes the same batch each time, and
/// contains nothing that its user may not see or write.
pub(crate) fn check(bytes: &[u8]) {
    read(bytes);
    // Give each line its correct hash, so that the check reaches the code behind the hash check.
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
    // Root (uid 0) and the owner of the files may record more.
    if run.uid > OWNER {
        check_allowed(&finish(run));
    }
}

fn check_allowed(run: &Run) {
    let Database {
        engine,
        schema,
        owner_run_id,
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
    assert_ne!(allowed.parent.as_ref(), Some(owner_run_id));
    for used in allowed.inputs.iter().chain(&allowed.outputs) {
        assert_ne!(used.path, SECRET_FILE);
        assert!(used.path != RECORDED_FILE || used.tags.is_empty());
    }
}
