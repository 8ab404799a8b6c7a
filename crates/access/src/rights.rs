//! What a server knows of who may do what: the two files of keys and that of tokens, read again when they change.

use crate::authorized::{self, AuthorizedKeys, Closed};
use crate::file::{Folder, Found};
use crate::role::Role;
use crate::token::{self, Token};
use crate::{fingerprint, home};
use esker_model::object::Asker;
use ssh_key::public::KeyData;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often at most the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What somebody was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What they may do.
    pub role: Role,
    /// As whom they read; none if nothing is hidden from them.
    pub user: Option<Asker>,
    /// How the key is called: its comment in the file that grants it.
    pub comment: String,
    /// Seconds since 1970 from which it opens nothing; none for ever.
    pub until: Option<i64>,
}

/// Why somebody is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// No file names the key.
    Unknown,
    /// It was revoked.
    Revoked,
    /// Its time is over.
    Expired {
        /// When.
        at: String,
    },
    /// It may not be used from there.
    Elsewhere {
        /// From where.
        from: String,
    },
    /// The files that would say cannot be read.
    Unread {
        /// Why.
        why: String,
    },
}

impl Refused {
    /// What whoever is refused is told: files and their modes are the owner's business.
    pub fn told(&self) -> String {
        match self {
            Self::Unread { .. } => {
                "the server cannot read who has rights; its log says why".to_owned()
            }
            other => other.to_string(),
        }
    }

    /// One word for it, to count by.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown_key",
            Self::Revoked => "revoked",
            Self::Expired { .. } => "expired",
            Self::Elsewhere { .. } => "elsewhere",
            Self::Unread { .. } => "unreadable",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it has no rights here"),
            Self::Revoked => f.write_str("it was revoked"),
            Self::Expired { at } => write!(f, "its time ended at {at}"),
            Self::Elsewhere { from } => write!(f, "it may be used from {from} only"),
            Self::Unread { why } => f.write_str(why),
        }
    }
}

/// Where a file of rights lies.
#[derive(Debug)]
enum Place {
    /// In a folder that was opened before.
    In(Arc<Folder>),
    /// Wherever its path leads. Beside this process's user and root, its owner may be who owned its folder at the start.
    Path { owner: Option<u32> },
}

/// A file that is read again when it changes.
#[derive(Debug)]
struct Watched {
    place: Place,
    path: PathBuf,
    name: &'static str,
    found: Found,
    text: Result<String, String>,
}

impl Watched {
    fn within(folder: &Arc<Folder>, name: &'static str) -> Self {
        let path = folder.path().join(name);
        Self::new(Place::In(Arc::clone(folder)), path, name)
    }

    fn at(path: PathBuf, name: &'static str) -> Self {
        let folder = path.parent().and_then(|p| Folder::open(p).ok());
        let owner = folder.map(|f| f.owner());
        Self::new(Place::Path { owner }, path, name)
    }

    fn new(place: Place, path: PathBuf, name: &'static str) -> Self {
        Self {
            place,
            path,
            name,
            found: Found::Absent,
            text: Ok(String::new()),
        }
    }

    /// The folder that it lies in, if there is one.
    fn folder(&self) -> std::io::Result<Option<Arc<Folder>>> {
        match &self.place {
            Place::In(folder) => Ok(Some(Arc::clone(folder))),
            Place::Path { owner } => Ok(Folder::around(&self.path, *owner)?.map(Arc::new)),
        }
    }

    fn find(&self) -> Found {
        match self.folder() {
            Ok(Some(folder)) => folder.find(self.name),
            Ok(None) => Found::Absent,
            Err(e) => Found::Unknown(e.kind()),
        }
    }

    /// Whether it is not as it was when it was read.
    fn is_changed(&self) -> bool {
        self.find() != self.found
    }

    /// Reads it if it is not as it was; whether it did.
    fn look(&mut self) -> bool {
        let found = self.find();
        // What could not be read is tried again: the disk may have failed for a moment.
        if found == self.found && self.text.is_ok() {
            return false;
        }
        let failed = |e| format!("reading `{}`: {e}", self.path.display());
        let text = match self.folder() {
            Ok(Some(folder)) => match folder.read(self.name) {
                Ok(read) => Ok(read.map(|(_, text)| text).unwrap_or_default()),
                Err(e) => Err(e.to_string()),
            },
            Ok(None) => Ok(String::new()),
            Err(e) => Err(failed(e)),
        };
        let changed = found != self.found || text != self.text;
        (self.found, self.text) = (found, text);
        changed
    }
}

#[derive(Debug)]
struct State {
    files: Vec<Watched>,
    tokens: Watched,
    keys: Vec<AuthorizedKeys>,
    known: Vec<Token>,
    /// Whether the folder's path led to another one when it was last looked.
    is_replaced: bool,
    /// What has gone wrong since it was last asked for.
    news: Vec<String>,
}

impl State {
    fn all(&self) -> impl Iterator<Item = &Watched> {
        self.files.iter().chain([&self.tokens])
    }

    /// Looks at the files; whether one had changed.
    fn look(&mut self) -> bool {
        let mut changed = false;
        for file in self.files.iter_mut().chain([&mut self.tokens]) {
            if !file.look() {
                continue;
            }
            changed = true;
            if let Err(why) = &file.text {
                self.news.push(why.clone());
            }
        }
        if changed {
            let text = |w: &Watched| w.text.clone().unwrap_or_default();
            let parse = |w: &Watched| AuthorizedKeys::parse(&text(w));
            self.keys = self.files.iter().map(parse).collect();
            self.known = token::parse(&text(&self.tokens));
        }
        self.look_at_folder();
        changed
    }

    /// Whether the path of the folder that was opened leads elsewhere by now.
    fn is_moved(&self) -> bool {
        matches!(&self.tokens.place, Place::In(folder) if folder.is_replaced())
    }

    /// Notes when another folder comes to be at the path of the one that was opened.
    fn look_at_folder(&mut self) {
        let is_replaced = self.is_moved();
        if let (Place::In(folder), true, false) =
            (&self.tokens.place, is_replaced, self.is_replaced)
        {
            self.news.push(replaced(folder));
        }
        self.is_replaced = is_replaced;
    }

    /// Why nobody's key or token opens anything, if so: the first file may take away what the others give.
    fn closed(&self) -> Result<(), Refused> {
        match self.files.first().map(|f| &f.text) {
            Some(Err(why)) => Err(Refused::Unread { why: why.clone() }),
            _ => Ok(()),
        }
    }
}

fn replaced(folder: &Folder) -> String {
    format!(
        "the folder `{0}` was moved or replaced while it is open: rights are read from the one that was opened, and what lies at that \
         path now is not looked at; whoever may write in the folder that holds `{0}` can do that",
        folder.path().display()
    )
}

/// Who may do what with a database.
#[derive(Debug)]
pub struct Rights {
    state: RwLock<State>,
    started: Instant,
    /// When the files were looked at last, in milliseconds since then.
    looked: AtomicU64,
    /// How often they have changed since.
    generation: AtomicU64,
}

impl Rights {
    /// Those that `authorized_keys` in a database's folder and in `~/.esker` grant.
    pub fn of(folder: &Arc<Folder>) -> Self {
        let mut files = vec![Watched::within(folder, authorized::NAME)];
        let own = home().map(|h| h.join(authorized::NAME));
        files.extend(own.map(|path| Watched::at(path, authorized::NAME)));
        Self::new(files, Watched::within(folder, token::NAME))
    }

    /// Those that `authorized_keys` in a folder grants; `~/.esker` is not looked at.
    pub fn of_folder_alone(folder: &Arc<Folder>) -> Self {
        let files = vec![Watched::within(folder, authorized::NAME)];
        Self::new(files, Watched::within(folder, token::NAME))
    }

    fn new(files: Vec<Watched>, tokens: Watched) -> Self {
        let mut state = State {
            keys: vec![AuthorizedKeys::default(); files.len()],
            files,
            tokens,
            known: Vec::new(),
            is_replaced: false,
            news: Vec::new(),
        };
        state.look();
        // What is wrong at the start is asked for by `mistakes`.
        state.news.clear();
        Self {
            state: RwLock::new(state),
            started: Instant::now(),
            looked: AtomicU64::new(0),
            generation: AtomicU64::new(1),
        }
    }

    /// Looks at the files unless that was just done; a number that changes when they have.
    pub fn generation(&self) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.looked.load(Ordering::Acquire);
        let due = now.saturating_sub(before) >= LOOK.as_millis() as u64;
        // One of all that ask at once looks.
        let turn = || {
            let mine =
                self.looked
                    .compare_exchange(before, now, Ordering::AcqRel, Ordering::Acquire);
            mine.is_ok()
        };
        if due && turn() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if state.look() {
                self.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.generation.load(Ordering::Acquire)
    }

    /// Looks at the files now: they have just been changed, or somebody comes whose rights may be new. Others wait for it only if
    /// there is something new to read.
    pub fn refresh(&self) {
        let is_changed = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.all().any(Watched::is_changed) || state.is_moved() != state.is_replaced
        };
        if !is_changed {
            return;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.look() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What has gone wrong with the files since this was last asked: for the log.
    pub fn news(&self) -> Vec<String> {
        self.generation();
        let is_quiet = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.news.is_empty()
        };
        if is_quiet {
            return Vec::new();
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.news)
    }

    /// What a key may do for somebody at that address, now. Of several lines the one that allows most holds, but one that
    /// revokes the key in the first file that names it is the last word, and one that binds the key to a user binds it wherever else it is named. While the first file cannot be read, no key opens anything.
    pub fn of_key(&self, key: &KeyData, from: IpAddr) -> Result<Granted, Refused> {
        self.generation();
        self.of_key_at(key, from, now())
    }

    fn of_key_at(&self, key: &KeyData, from: IpAddr, now: i64) -> Result<Granted, Refused> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.closed()?;
        let mut best: Option<Granted> = None;
        let mut user: Option<Asker> = None;
        let mut refused: Option<Refused> = None;
        for keys in &state.keys {
            for line in keys.of(key) {
                match line.opens(from, now) {
                    Ok(role) => {
                        user = user.or_else(|| line.user().cloned());
                        let more = |b: &Granted| b.role != role && role.may(b.role);
                        if best.as_ref().is_none_or(more) {
                            best = Some(Granted {
                                role,
                                user: None,
                                comment: line.key.comment().to_owned(),
                                until: line.expires(),
                            });
                        }
                    }
                    Err(Closed::Revoked) if best.is_none() => return Err(Refused::Revoked),
                    Err(closed) => {
                        refused.get_or_insert(match closed {
                            Closed::Revoked => Refused::Revoked,
                            Closed::Expired { at } => Refused::Expired { at },
                            Closed::Elsewhere { from } => Refused::Elsewhere { from },
                        });
                    }
                }
            }
        }
        if let Some(mut granted) = best {
            if user.is_some() {
                granted.role = Role::Read;
            }
            return Ok(Granted { user, ..granted });
        }
        let unread = || {
            let why = state.files.iter().find_map(|f| f.text.as_ref().err())?;
            Some(Refused::Unread { why: why.clone() })
        };
        Err(refused.or_else(unread).unwrap_or(Refused::Unknown))
    }

    /// What a token opens, now, and how it is called.
    pub fn of_token(&self, shown: &str) -> Result<(Granted, String), Refused> {
        self.of_hash(|known| token::find(known, shown))
    }

    /// The same of a token that is known by its hash ([`token::hash_of`]).
    pub fn of_token_hash(&self, hash: &str) -> Result<(Granted, String), Refused> {
        self.of_hash(|known| known.iter().find(|t| t.hash() == hash))
    }

    fn of_hash(
        &self,
        find: impl Fn(&[Token]) -> Option<&Token>,
    ) -> Result<(Granted, String), Refused> {
        self.generation();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.closed()?;
        if let Err(why) = &state.tokens.text {
            return Err(Refused::Unread { why: why.clone() });
        }
        let token = find(&state.known).ok_or(Refused::Unknown)?;
        if now() >= token.expires {
            return Err(Refused::Expired { at: token.end() });
        }
        let granted = Granted {
            role: token.role,
            user: token.user.clone(),
            comment: token.comment.clone(),
            until: Some(token.expires),
        };
        Ok((granted, token.name()))
    }

    /// What is wrong in the files: lines that give no rights, files that are not read.
    pub fn mistakes(&self) -> Vec<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for (file, keys) in state.files.iter().zip(&state.keys) {
            all.extend(file.text.as_ref().err().cloned());
            for mistake in &keys.mistakes {
                let at = format!("{}:{}", file.path.display(), mistake.number);
                all.push(format!("{at}: {}", mistake.why));
            }
        }
        all.extend(state.tokens.text.as_ref().err().cloned());
        if let (true, Place::In(folder)) = (state.is_replaced, &state.tokens.place) {
            all.push(replaced(folder));
        }
        all
    }

    /// How a key is called in the files, if they name it.
    pub fn comment_of(&self, key: &KeyData) -> String {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut lines = state.keys.iter().flat_map(|k| k.of(key));
        let comment = lines.next().map(|l| l.key.comment().to_owned());
        comment.unwrap_or_default()
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// A key in words, for a log: fingerprint and comment.
pub fn in_words(key: &KeyData, comment: &str) -> String {
    format!("{} {comment}", fingerprint(key))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorized::{Terms, line, with};
    use crate::{HostKey, file};
    use std::path::Path;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn write(path: &Path, text: &str) {
        file::replace(path, 0o600, text.as_bytes()).unwrap();
    }

    /// A line of a file for a key.
    fn terms(key: &HostKey, role: Option<Role>, expires: Option<i64>) -> String {
        let terms = Terms {
            role,
            expires,
            ..Terms::default()
        };
        line(key.public(), &terms).unwrap()
    }

    /// The rights that two files grant: that of a database's folder, and one for all databases.
    fn rights_of(folder: &Path, all: &Path) -> Rights {
        let folder = Arc::new(Folder::open(folder).unwrap());
        let files = vec![
            Watched::within(&folder, authorized::NAME),
            Watched::at(all.to_path_buf(), authorized::NAME),
        ];
        Rights::new(files, Watched::within(&folder, token::NAME))
    }

    /// The two folders, and the files in them.
    fn two(dir: &Path) -> [PathBuf; 4] {
        let folders = ["lab", "home"].map(|name| dir.join(name));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
        }
        let files = folders.clone().map(|folder| folder.join(authorized::NAME));
        let ([lab, home], [own, all]) = (folders, files);
        [lab, home, own, all]
    }

    /// Also where another line gives the key more.
    #[test]
    fn a_line_with_a_user_binds_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let rights = rights_of(&lab, &all);
        let bob = HostKey::from_seed(&[1; 32]);
        let user: Asker = "1002:100,7".parse().unwrap();
        let bound = Terms {
            role: Some(Role::Read),
            user: Some(user.clone()),
            ..Terms::default()
        };
        let bound = line(bob.public(), &bound).unwrap();
        let admin = terms(&bob, Some(Role::Admin), None);
        for (first, second) in [
            (bound.clone(), String::new()),
            (bound.clone(), admin.clone()),
            (admin.clone(), bound.clone()),
            (format!("{admin}\n{bound}"), String::new()),
        ] {
            write(&own, &first);
            write(&all, &second);
            rights.refresh();
            let granted = rights.of_key(bob.public().key_data(), HERE).unwrap();
            assert_eq!(granted.role, Role::Read, "{first} {second}");
            assert_eq!(granted.user.as_ref(), Some(&user), "{first} {second}");
        }
    }

    #[test]
    fn rights_come_from_both_files_and_go_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let rights = rights_of(&lab, &all);
        let (bob, ann) = (HostKey::from_seed(&[1; 32]), HostKey::from_seed(&[2; 32]));
        let of = |key: &HostKey| {
            rights.refresh();
            rights.of_key(key.public().key_data(), HERE).map(|g| g.role)
        };
        assert_eq!(of(&bob), Err(Refused::Unknown));
        write(&all, &format!("{}\n", terms(&bob, Some(Role::Write), None)));
        let before = rights.generation();
        assert_eq!(of(&bob), Ok(Role::Write));
        assert_ne!(rights.generation(), before);
        // The database's own file may take away what the other one gives.
        write(&own, &format!("{}\n", terms(&bob, None, None)));
        assert_eq!(of(&bob), Err(Refused::Revoked));
        let text = with("", bob.public().key_data(), None);
        write(
            &own,
            &format!("{text}{}\n", terms(&ann, Some(Role::Admin), Some(7))),
        );
        assert_eq!(of(&bob), Ok(Role::Write));
        assert!(matches!(of(&ann), Err(Refused::Expired { .. })));
        std::fs::remove_file(&all).unwrap();
        assert_eq!(of(&bob), Err(Refused::Unknown));
    }

    fn chmod(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_could_have_written_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let bob = HostKey::from_seed(&[1; 32]);
        write(&own, &format!("{}\n", terms(&bob, Some(Role::Write), None)));
        chmod(&own, 0o666);
        let rights = rights_of(&lab, &all);
        let refused = rights.of_key(bob.public().key_data(), HERE).unwrap_err();
        assert!(matches!(&refused, Refused::Unread { why } if why.contains("written by others")));
        assert_eq!(rights.mistakes().len(), 1);
    }

    /// A line of the first file takes a key's rights; then the file cannot be read any more. The key stays without rights, and so
    /// does everybody else's, tokens included, until the file can be read.
    #[test]
    fn a_first_file_that_cannot_be_read_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let (bob, ann) = (HostKey::from_seed(&[1; 32]), HostKey::from_seed(&[2; 32]));
        let both = [&bob, &ann].map(|key| terms(key, Some(Role::Write), None));
        write(&all, &format!("{}\n", both.join("\n")));
        write(&own, &format!("{}\n", terms(&bob, None, None)));
        let token = crate::grants::make_token(lab.as_path(), &Role::Read.into(), 60, "").unwrap();
        let rights = rights_of(&lab, &all);
        let of = |key: &HostKey| {
            rights.refresh();
            rights.of_key(key.public().key_data(), HERE).map(|g| g.role)
        };
        assert_eq!(
            (of(&bob), of(&ann)),
            (Err(Refused::Revoked), Ok(Role::Write))
        );
        assert!(rights.of_token(&token).is_ok());
        let unread = |refused| matches!(refused, Err(Refused::Unread { .. }));
        let expect_closed = |what: &str| {
            assert!(unread(of(&bob)) && unread(of(&ann)), "{what}");
            let of_token = rights.of_token(&token).map(|(g, _)| g.role);
            assert!(unread(of_token), "{what}");
            assert_eq!(rights.news().len(), 1, "{what}");
        };
        chmod(&own, 0o620);
        expect_closed("others may write it");
        chmod(&own, 0o600);
        assert_eq!(
            (of(&bob), of(&ann)),
            (Err(Refused::Revoked), Ok(Role::Write))
        );
        // A folder in its place.
        std::fs::rename(&own, lab.join("x")).unwrap();
        std::fs::create_dir(&own).unwrap();
        expect_closed("it is no file");
        std::fs::remove_dir(&own).unwrap();
        assert_eq!(of(&ann), Ok(Role::Write));
        std::fs::rename(lab.join("x"), &own).unwrap();
        assert_eq!(of(&bob), Err(Refused::Revoked));
        chmod(&lab, 0o777);
        rights.refresh();
        assert!(unread(of(&ann)), "others may write in its folder");
        // From the start, too.
        let rights = rights_of(&lab, &all);
        assert!(unread(
            rights.of_key(ann.public().key_data(), HERE).map(|g| g.role)
        ));
    }

    /// Somebody who may write in the parent puts a folder of their own in the place of one that a server has open.
    #[test]
    fn a_folder_in_the_place_of_another_gives_no_rights() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let (bob, eve) = (HostKey::from_seed(&[1; 32]), HostKey::from_seed(&[2; 32]));
        write(&own, &format!("{}\n", terms(&bob, Some(Role::Read), None)));
        let rights = rights_of(&lab, &all);
        std::fs::rename(&lab, dir.path().join("x")).unwrap();
        std::fs::create_dir(&lab).unwrap();
        let line = terms(&eve, Some(Role::Admin), None);
        std::fs::write(&own, format!("{line}\n")).unwrap();
        if rustix::process::geteuid().is_root() {
            for path in [&lab, &own] {
                std::os::unix::fs::chown(path, Some(1002), Some(1002)).unwrap();
            }
        }
        rights.refresh();
        let of = |key: &HostKey| rights.of_key(key.public().key_data(), HERE).map(|g| g.role);
        assert_eq!(of(&eve), Err(Refused::Unknown));
        assert_eq!(of(&bob), Ok(Role::Read));
        for said in [rights.news(), rights.mistakes()] {
            assert!(
                said.iter().any(|m| m.contains("was moved or replaced")),
                "{said:?}"
            );
        }
    }

    /// The same with `~/.esker`, which is looked for by its path: who owned it at the start is believed, and nobody who came later.
    #[test]
    fn a_home_of_somebody_else_gives_no_rights() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let [lab, home, _, all] = two(dir.path());
        let (bob, eve) = (HostKey::from_seed(&[1; 32]), HostKey::from_seed(&[2; 32]));
        write(&all, &format!("{}\n", terms(&bob, Some(Role::Read), None)));
        let own = |user| {
            for path in [&home, &all] {
                std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
            }
        };
        own(1001);
        let rights = rights_of(&lab, &all);
        let of = |key: &HostKey| {
            rights.refresh();
            rights.of_key(key.public().key_data(), HERE).map(|g| g.role)
        };
        assert_eq!(of(&bob), Ok(Role::Read));
        std::fs::rename(&home, dir.path().join("x")).unwrap();
        std::fs::create_dir(&home).unwrap();
        write(&all, &format!("{}\n", terms(&eve, Some(Role::Admin), None)));
        own(1002);
        assert!(matches!(of(&eve), Err(Refused::Unread { .. })));
    }
}
