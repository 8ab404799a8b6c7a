//! POSIX access control lists, through the programs that people use, compared with a tmpfs.

use crate::scratch::{Scratch, Tmpfs, mounting};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a script in a directory as user 0, with `as USER GROUP GROUPS COMMAND` for commands of others; returns its output.
fn run(at: &Path, script: &str) -> String {
    let prelude = "as() { setpriv --reuid=$1 --regid=$2 --groups=$3 sh -c \"$4\" && echo done || echo refused; }\n\
                   show() { for f in \"$@\"; do stat -c '%n %A %u %g' $f; getfacl -nE $f; done; }\n\
                   exec 2>&1; umask 027\n";
    let out = Command::new("sh")
        .current_dir(at)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .args(["-c", &format!("{prelude}{script}")])
        .output()
        .unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// Whether the programs of this test are there; prints the reason if not.
fn has_programs() -> bool {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let all = ["setfacl", "getfacl", "setpriv"].into_iter().all(has);
    if !all {
        eprintln!("skipped: needs setfacl, getfacl (acl) and setpriv");
    }
    all
}

const STEPS: &str = r"
chmod 755 .
mkdir d plain; touch f plain/new; mkdir plain/sub; mkfifo plain/pipe
show plain plain/new plain/sub plain/pipe
echo secret > f; chmod 640 f
setfacl -m u:1000:rw,g:2000:r f; show f
as 1000 1000 1000 'cat f'; as 1000 1000 1000 'echo more >> f'
as 1001 1001 2000 'cat f'; as 1001 1001 2000 'echo more >> f'
as 1002 1002 1002 'cat f'
setfacl -m u:1000:- f; as 1000 1000 2000 'cat f'
setfacl -m m::- f; show f; as 1001 1001 2000 'cat f'
setfacl -m m::rw f
chmod 644 f; show f; as 1001 1001 2000 'echo more >> f'
chmod 700 f; show f; as 1001 1001 2000 'cat f'
as 1000 1000 1000 'setfacl -m u:1000:rwx f'
setfacl -b f; show f
setfacl -m u::rwx,g::r,o::- f; show f
setfacl -d -m u::rwx,u:1000:rwx,g::rx,g:2000:rx,o::- d; show d
chmod 777 d
touch d/file; mkdir d/sub; mkfifo d/pipe; ln -s file d/link; mkdir d/sub/deep
show d/file d/sub d/pipe d/sub/deep
as 1000 1000 1000 'umask 077; echo text > d/sub/theirs; mkdir -p d/sub/a/b'
show d/sub/theirs d/sub/a/b
as 1001 1001 2000 'cat d/sub/theirs'; as 1001 1001 2000 'ls d/sub/a'; as 1001 1001 2000 'touch d/sub/x'
as 1002 1002 1002 'ls d/sub'
setfacl -k d/sub; touch d/sub/later; show d/sub d/sub/later
setfacl -d -m u:1000:r f
getfacl -nE d/link; setfacl -m u:1000:r d/link; show d/file
touch g; chown 1000:2000 g; chmod 2755 g; as 1000 1000 1000 'setfacl -m u:1001:r g'; show g
touch h; chown 1000:2000 h; chmod 2755 h; as 1000 1000 2000 'setfacl -m u:1001:r h'; show h
ln h i; setfacl -m u:1002:rw i; show h; mv i d/moved; show d/moved
cp -a h copy; show copy
as 1001 1001 1001 'test -r h && ! test -w h'
setfattr -n system.posix_acl_access -v 0x02000000 h; show h
setfattr -n system.posix_acl_access -v 0x0200000001000700ffffffff h
setfattr -n system.posix_acl_access -v 0x03000000 h
setfattr -x system.posix_acl_default d; show d
";

#[test]
fn lists_are_those_of_a_local_file_system() {
    mounting(|| {
        if !has_programs() {
            return;
        }
        let tmpfs = Tmpfs::new();
        let mut scratch = Scratch::new();
        let expected = run(tmpfs.path(), STEPS);
        assert!(expected.contains("user:1000:rw"), "{expected}");
        let (expected, got) = (lines(&expected), lines(&run(&scratch.at(), STEPS)));
        for (i, line) in expected.iter().enumerate() {
            assert_eq!(
                got.get(i),
                Some(line),
                "line {i}, after {:#?}",
                &got[i.saturating_sub(12)..i]
            );
        }
        assert_eq!(got.len(), expected.len());
        let look = "show f d d/* d/sub/* g h copy";
        let before = run(&scratch.at(), look);
        scratch.unmount();
        scratch.mount(|_| {});
        assert_eq!(run(&scratch.at(), look), before, "after another mount");
        scratch.demand_sound();
    });
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
