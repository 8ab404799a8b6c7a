//! Views of files below `.esker`.

use crate::people::{ADA, NOBODY, by};
use crate::scratch::{Scratch, mounting};
use esker_model::namespace::{NamePath, Namespace as _};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn names(directory: &Path) -> BTreeSet<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(directory).unwrap().map(name).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn each_view_has_the_tree_of_the_mount() {
    mounting(|| {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        fs::write(scratch.path("d/f"), "content").unwrap();
        std::os::unix::fs::symlink("f", scratch.path("d/link")).unwrap();
        assert_eq!(names(&scratch.at()), set(&["d"]), "views are not listed");
        assert_eq!(names(&scratch.path(".esker")), set(&["reader", "nothing"]));
        assert_eq!(names(&scratch.path(".esker/reader")), set(&["d"]));
        assert_eq!(
            names(&scratch.path(".esker/reader/d")),
            set(&["f"]),
            "links have no views"
        );
        let view = scratch.path(".esker/reader/d/f");
        let path = NamePath::parse(b"/d/f").unwrap();
        let file = scratch.database.stat(None, &path, false).unwrap();
        assert_eq!(
            fs::read_to_string(&view).unwrap(),
            format!("0 reads {}\n", file.id)
        );
        let attributes = fs::metadata(&view).unwrap();
        assert!(
            attributes.is_file()
                && attributes.ino() != fs::metadata(scratch.path("d/f")).unwrap().ino()
        );
        assert_eq!(attributes.mode() & 0o7777, 0o444);
        // A file that is moved or removed is so in the views, too.
        fs::rename(scratch.path("d/f"), scratch.path("d/g")).unwrap();
        assert_eq!(names(&scratch.path(".esker/reader/d")), set(&["g"]));
        assert_eq!(
            fs::read_to_string(scratch.path(".esker/reader/d/g")).unwrap(),
            format!("0 reads {}\n", file.id)
        );
        fs::remove_file(scratch.path("d/g")).unwrap();
        assert!(names(&scratch.path(".esker/reader/d")).is_empty());
    });
}

#[test]
fn views_are_read_only() {
    mounting(|| {
        let scratch = Scratch::new();
        fs::write(scratch.path("f"), "content").unwrap();
        let errno = |done: std::io::Result<()>| done.unwrap_err().raw_os_error();
        let read_only = Some(Errno::ROFS.raw_os_error());
        let view = scratch.path(".esker/reader");
        assert_eq!(errno(fs::write(view.join("f"), "x")), read_only);
        assert_eq!(errno(fs::write(view.join("new"), "x")), read_only);
        assert_eq!(errno(fs::create_dir(view.join("new"))), read_only);
        assert_eq!(errno(fs::remove_file(view.join("f"))), read_only);
        assert_eq!(
            errno(fs::rename(view.join("f"), scratch.path("g"))),
            read_only
        );
        assert_eq!(
            errno(fs::rename(scratch.path("f"), view.join("g"))),
            read_only
        );
        let untold = fs::read(scratch.path(".esker/nothing/f")).map(|_| ());
        assert_eq!(errno(untold), Some(Errno::NODATA.raw_os_error()));
        let unknown = fs::metadata(scratch.path(".esker/unknown")).map(|_| ());
        assert_eq!(errno(unknown), Some(Errno::NOENT.raw_os_error()));
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"content");
    });
}

#[test]
fn a_view_is_made_for_the_user_who_opens_it() {
    mounting(|| {
        let scratch = Scratch::open_to_others();
        fs::create_dir(scratch.path("private")).unwrap();
        fs::write(scratch.path("private/f"), "content").unwrap();
        let hand = |path: &str, mode| {
            let path = scratch.path(path);
            std::os::unix::fs::chown(&path, Some(ADA.uid), Some(ADA.gid)).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        hand("private/f", 0o600);
        hand("private", 0o700);
        let view = scratch.path(".esker/reader/private/f");
        let read = view.clone();
        let text = by(ADA, move || fs::read_to_string(read).unwrap());
        assert!(text.starts_with(&format!("{} reads", ADA.uid)), "{text}");
        let refused = by(NOBODY, move || fs::read(view).unwrap_err().kind());
        assert_eq!(refused, std::io::ErrorKind::PermissionDenied);
    });
}
