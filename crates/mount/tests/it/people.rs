//! Calls as another user: a thread of its own takes the user's ids.

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// User and groups of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: &'static [u32],
}

pub(crate) const ROOT: Person = Person {
    uid: 0,
    gid: 0,
    groups: &[],
};
pub(crate) const ADA: Person = Person {
    uid: 1_000,
    gid: 1_000,
    groups: &[2_000],
};
pub(crate) const NOBODY: Person = Person {
    uid: 65_534,
    gid: 65_534,
    groups: &[],
};

/// Runs a closure as this user.
pub(crate) fn by<T: Send>(who: Person, work: impl FnOnce() -> T + Send) -> T {
    if who == ROOT {
        return work();
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let groups: Vec<Gid> = who.groups.iter().map(|g| Gid::from_raw(*g)).collect();
            set_thread_groups(&groups).unwrap();
            let (gid, uid) = (Gid::from_raw(who.gid), Uid::from_raw(who.uid));
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}
