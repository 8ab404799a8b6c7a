//! Rights that a server grants: two files of keys and one of tokens, reloaded when they change.

mod users;

use crate::authorized::{self, AuthorizedKeys, LineRefusal};
use crate::binding::UserBinding;
use crate::blocking::run_blocking;
use crate::file::{FileStatus, Folder};
use crate::granted::{Granted, Refused};
use crate::role::Role;
use crate::token::{self, Token};
use crate::{fingerprint, home};
use esker_process::accounts::Accounts;
use ssh_key::public::KeyData;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Minimum interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Location of a rights file.
#[derive(Debug)]
enum Location {
    /// In a folder that was opened before.
    In(Arc<Folder>),
    /// At a path. Its owner may be this process's user, root or `owner`, the owner of its folder at the start.
    Path { owner: Option<u32> },
}

/// A file that is reloaded when it changes.
#[derive(Debug)]
struct WatchedFile {
    location: Location,
    path: PathBuf,
    name: &'static str,
    found: FileStatus,
    text: Result<String, String>,
}

impl WatchedFile {
    fn within(folder: &Arc<Folder>, name: &'static str) -> Self {
        let path = folder.path().join(name);
        Self::new(Location::In(Arc::clone(folder)), path, name)
    }

    fn at(path: PathBuf, name: &'static str) -> Self {
        let folder = path.parent().and_then(|p| Folder::open(p).ok());
        let owner = folder.map(|f| f.owner());
        Self::new(Location::Path { owner }, path, name)
    }

    fn new(location: Location, path: PathBuf, name: &'static str) -> Self {
        Self {
            location,
            path,
            name,
            found: FileStatus::Absent,
            text: Ok(String::new()),
        }
    }

    /// Returns the folder of the file, if it exists.
    fn folder(&self) -> std::io::Result<Option<Arc<Folder>>> {
        match &self.location {
            Location::In(folder) => Ok(Some(Arc::clone(folder))),
            Location::Path { owner } => Ok(Folder::containing(&self.path, *owner)?.map(Arc::new)),
        }
    }

    fn find(&self) -> FileStatus {
        match self.folder() {
            Ok(Some(folder)) => folder.find(self.name),
            Ok(None) => FileStatus::Absent,
            Err(e) => FileStatus::Unknown(e.kind()),
        }
    }

    /// Whether the file changed since it was last read.
    fn is_changed(&self) -> bool {
        self.find() != self.found
    }

    /// Reloads the file if it changed; returns whether it did.
    fn reload_if_changed(&mut self) -> bool {
        let found = self.find();
        // A failed read is repeated: the disk may have failed temporarily.
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
    files: Vec<WatchedFile>,
    tokens: WatchedFile,
    keys: Vec<AuthorizedKeys>,
    known: Vec<Token>,
    /// Whether the folder's path led to another folder at the last check.
    is_replaced: bool,
    /// Problems since the last call of [`Rights::news`].
    news: Vec<String>,
}

impl State {
    fn all(&self) -> impl Iterator<Item = &WatchedFile> {
        self.files.iter().chain([&self.tokens])
    }

    /// Reloads changed files; returns whether any had changed.
    fn reload_if_changed(&mut self) -> bool {
        let mut changed = false;
        for file in self.files.iter_mut().chain([&mut self.tokens]) {
            if !file.reload_if_changed() {
                continue;
            }
            changed = true;
            if let Err(why) = &file.text {
                self.news.push(why.clone());
            }
        }
        if changed {
            let text = |w: &WatchedFile| w.text.clone().unwrap_or_default();
            let parse = |w: &WatchedFile| AuthorizedKeys::parse(&text(w));
            self.keys = self.files.iter().map(parse).collect();
            self.known = token::parse(&text(&self.tokens));
        }
        self.check_folder();
        changed
    }

    /// Whether the path of the opened folder now leads elsewhere.
    fn is_moved(&self) -> bool {
        matches!(&self.tokens.location, Location::In(folder) if folder.is_replaced())
    }

    /// Reports when another folder appears at the path of the opened one.
    fn check_folder(&mut self) {
        let is_replaced = self.is_moved();
        if let (Location::In(folder), true, false) =
            (&self.tokens.location, is_replaced, self.is_replaced)
        {
            self.news.push(replaced(folder));
        }
        self.is_replaced = is_replaced;
    }

    /// Fails if the first file cannot be read, because it may revoke rights that the others grant.
    fn closed(&self) -> Result<(), Refused> {
        match self.files.first().map(|f| &f.text) {
            Some(Err(why)) => Err(Refused::Unread { why: why.clone() }),
            _ => Ok(()),
        }
    }
}

fn replaced(folder: &Folder) -> String {
    format!(
        "the folder `{0}` was moved or replaced while it is open: grants are still read from the \
         folder that was opened, and the one that is at that path now is ignored; anyone who can \
         write in the parent folder of `{0}` can do that",
        folder.path().display()
    )
}

/// Rights of all keys and tokens to a database.
#[derive(Debug)]
pub struct Rights {
    state: RwLock<State>,
    started: Instant,
    /// Time of the last check of the files, in milliseconds since `started`.
    checked: AtomicU64,
    /// Number of file changes since `started`.
    generation: AtomicU64,
    /// Users and groups of the server's machine.
    accounts: Accounts,
}

impl Rights {
    /// Loads the rights granted by `authorized_keys` in a database's folder and in `~/.esker`.
    pub fn load(folder: &Arc<Folder>) -> Self {
        let mut files = vec![WatchedFile::within(folder, authorized::NAME)];
        let own = home().map(|h| h.join(authorized::NAME));
        files.extend(own.map(|path| WatchedFile::at(path, authorized::NAME)));
        Self::new(files, WatchedFile::within(folder, token::NAME))
    }

    /// Loads the rights granted by `authorized_keys` in a folder, without those of `~/.esker`.
    pub fn load_folder_only(folder: &Arc<Folder>) -> Self {
        let files = vec![WatchedFile::within(folder, authorized::NAME)];
        Self::new(files, WatchedFile::within(folder, token::NAME))
    }

    fn new(files: Vec<WatchedFile>, tokens: WatchedFile) -> Self {
        let mut state = State {
            keys: vec![AuthorizedKeys::default(); files.len()],
            files,
            tokens,
            known: Vec::new(),
            is_replaced: false,
            news: Vec::new(),
        };
        state.reload_if_changed();
        // `mistakes` reports problems that exist at the start.
        state.news.clear();
        Self {
            state: RwLock::new(state),
            started: Instant::now(),
            checked: AtomicU64::new(0),
            generation: AtomicU64::new(1),
            accounts: Accounts::system().waiting_by(|wait| run_blocking(wait)),
        }
    }

    /// Users and groups of the server's machine.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Checks the files unless that was just done; returns a number that changes when they do.
    pub fn generation(&self) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.checked.load(Ordering::Acquire);
        let due = now.saturating_sub(before) >= CHECK_INTERVAL.as_millis() as u64;
        // One of several concurrent callers checks.
        let turn = || {
            let mine =
                self.checked
                    .compare_exchange(before, now, Ordering::AcqRel, Ordering::Acquire);
            mine.is_ok()
        };
        if due && turn() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if state.reload_if_changed() {
                self.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
        self.generation.load(Ordering::Acquire)
    }

    /// Checks the files at once: after a change of them, or for a client whose rights may be new. Other callers wait only if there is
    /// something to reload.
    pub fn refresh(&self) {
        let is_changed = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.all().any(WatchedFile::is_changed) || state.is_moved() != state.is_replaced
        };
        if !is_changed {
            return;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.reload_if_changed() {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns the problems with the files since the last call, for the log.
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

    /// Returns the current rights of a key for a client at `from`. Of several lines, the one with the highest role applies, except that
    /// a revocation in the first file that names the key is final, and that a user binding applies to all lines of the key. While the
    /// first file cannot be read, every key is refused.
    pub fn of_key(&self, key: &KeyData, from: IpAddr) -> Result<Granted, Refused> {
        self.generation();
        self.of_key_at(key, from, now())
    }

    fn of_key_at(&self, key: &KeyData, from: IpAddr, now: i64) -> Result<Granted, Refused> {
        let (granted, user) = self.unbound_of_key(key, from, now)?;
        self.bound_to(granted, user.as_ref())
    }

    /// Returns the rights in the lines of a key, and the user to whom one of the lines binds it.
    fn unbound_of_key(
        &self,
        key: &KeyData,
        from: IpAddr,
        now: i64,
    ) -> Result<(Granted, Option<UserBinding>), Refused> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.closed()?;
        let mut best: Option<Granted> = None;
        let mut user: Option<UserBinding> = None;
        let mut refused: Option<Refused> = None;
        for keys in &state.keys {
            for line in keys.lines_of(key) {
                match line.role_at(from, now) {
                    Ok(role) => {
                        user = user.or_else(|| line.user().cloned());
                        let more = |b: &Granted| b.role != role && role.may(b.role);
                        if best.as_ref().is_none_or(more) {
                            best = Some(Granted {
                                comment: line.key.comment().to_owned(),
                                until: line.expires(),
                                ..Granted::new(role)
                            });
                        }
                    }
                    Err(LineRefusal::Revoked) if best.is_none() => return Err(Refused::Revoked),
                    Err(closed) => {
                        refused.get_or_insert(closed.into());
                    }
                }
            }
        }
        if let Some(granted) = best {
            return Ok((granted, user));
        }
        let unread = || {
            let why = state.files.iter().find_map(|f| f.text.as_ref().err())?;
            Some(Refused::Unread { why: why.clone() })
        };
        Err(refused.or_else(unread).unwrap_or(Refused::Unknown))
    }

    /// Limits rights to the user to whom a credential is bound.
    fn bound_to(
        &self,
        granted: Granted,
        binding: Option<&UserBinding>,
    ) -> Result<Granted, Refused> {
        match binding {
            None => Ok(granted),
            Some(UserBinding::Numbers(user)) => Ok(Granted {
                role: Role::Read,
                user: Some(user.clone()),
                ..granted
            }),
            Some(UserBinding::Login(login)) => self.as_login(granted, login),
        }
    }

    /// Limits rights to the user with a login name.
    fn as_login(&self, granted: Granted, login: &str) -> Result<Granted, Refused> {
        let found = self.accounts.by_login(login);
        let account = found.map_err(|e| Refused::of_lookup(login, e))?;
        granted.limited_to(&account)
    }

    /// Returns the current rights of a token, and its name.
    pub fn of_token(&self, shown: &str) -> Result<(Granted, String), Refused> {
        self.of_hash(|known| token::find(known, shown))
    }

    /// Returns the current rights and the name of the token with the given hash ([`token::hash_of`]).
    pub fn of_token_hash(&self, hash: &str) -> Result<(Granted, String), Refused> {
        self.of_hash(|known| known.iter().find(|t| t.hash() == hash))
    }

    fn of_hash(
        &self,
        find: impl Fn(&[Token]) -> Option<&Token>,
    ) -> Result<(Granted, String), Refused> {
        self.generation();
        let token = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.closed()?;
            if let Err(why) = &state.tokens.text {
                return Err(Refused::Unread { why: why.clone() });
            }
            find(&state.known).cloned().ok_or(Refused::Unknown)?
        };
        if now() >= token.expires {
            return Err(Refused::Expired { at: token.end() });
        }
        let granted = Granted {
            comment: token.comment.clone(),
            until: Some(token.expires),
            ..Granted::new(token.role)
        };
        let granted = self.bound_to(granted, token.user.as_ref())?;
        Ok((granted, token.name()))
    }

    /// Returns the mistakes in the files: lines that grant no rights, files that are not read.
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
        if let (true, Location::In(folder)) = (state.is_replaced, &state.tokens.location) {
            all.push(replaced(folder));
        }
        all
    }

    /// Returns the comment of a key in the files; empty if no line names the key.
    pub fn comment_of(&self, key: &KeyData) -> String {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut lines = state.keys.iter().flat_map(|k| k.lines_of(key));
        let comment = lines.next().map(|l| l.key.comment().to_owned());
        comment.unwrap_or_default()
    }
}

/// Returns the current time, in seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// Formats a key for a log: fingerprint and comment.
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
    use esker_model::object::Principal;
    use std::path::Path;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn write(path: &Path, text: &str) {
        file::replace(path, 0o600, text.as_bytes()).unwrap();
    }

    /// Formats a line for a key.
    fn terms(key: &HostKey, role: Option<Role>, expires: Option<i64>) -> String {
        let terms = Terms {
            role,
            expires,
            ..Terms::default()
        };
        line(key.public(), &terms).unwrap()
    }

    /// Loads the rights of two files: that of a database's folder, and one for all databases.
    fn rights_of(folder: &Path, all: &Path) -> Rights {
        let folder = Arc::new(Folder::open(folder).unwrap());
        let files = vec![
            WatchedFile::within(&folder, authorized::NAME),
            WatchedFile::at(all.to_path_buf(), authorized::NAME),
        ];
        Rights::new(files, WatchedFile::within(&folder, token::NAME))
    }

    /// Creates the two folders; returns them and the paths of the files in them.
    fn two(dir: &Path) -> [PathBuf; 4] {
        let folders = ["lab", "home"].map(|name| dir.join(name));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
        }
        let files = folders.clone().map(|folder| folder.join(authorized::NAME));
        let ([lab, home], [own, all]) = (folders, files);
        [lab, home, own, all]
    }

    /// A user binding applies even if another line gives the key a higher role.
    #[test]
    fn a_line_with_a_user_binds_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let [lab, _, own, all] = two(dir.path());
        let rights = rights_of(&lab, &all);
        let bob = HostKey::from_seed(&[1; 32]);
        let user: Principal = "1002:100,7".parse().unwrap();
        let bound = Terms {
            role: Some(Role::Read),
            user: Some(UserBinding::Numbers(user.clone())),
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
        // The database's own file may revoke what the other one grants.
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

    /// A line of the first file revokes a key; then the file becomes unreadable. The key and all others, tokens included, have no
    /// rights until the file can be read.
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
        // A folder in place of the file.
        std::fs::rename(&own, lab.join("x")).unwrap();
        std::fs::create_dir(&own).unwrap();
        expect_closed("it is not a file");
        std::fs::remove_dir(&own).unwrap();
        assert_eq!(of(&ann), Ok(Role::Write));
        std::fs::rename(lab.join("x"), &own).unwrap();
        assert_eq!(of(&bob), Err(Refused::Revoked));
        chmod(&lab, 0o777);
        rights.refresh();
        assert!(unread(of(&ann)), "others may write in its folder");
        // Unreadable from the start.
        let rights = rights_of(&lab, &all);
        assert!(unread(
            rights.of_key(ann.public().key_data(), HERE).map(|g| g.role)
        ));
    }

    /// A user with write access to the parent replaces the folder that a server has open.
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

    /// `~/.esker` is found by its path: its owner at the start is trusted, and no later one.
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
