//! C programs, compiled against the header and the library, on a folder, a server, and beside a mount.

use crate::scratch::{Scratch, can_mount, path, run, unmount};
use esker::OpenOptions;

#[test]
fn everything_in_a_folder() {
    let scratch = Scratch::new();
    let program = scratch.compile("everything");
    let data = scratch.path("data");
    let said = run(
        &program,
        &[&scratch.target(), data.to_str().unwrap(), "behind"],
    );
    assert_eq!(said, "all is as it should be\n");
    scratch.demand_sound();
}

#[test]
fn everything_over_a_server() {
    let scratch = Scratch::new();
    let program = scratch.compile("everything");
    let server = scratch.serve();
    let data = scratch.path("data");
    let address = format!("esker://{}", server.address());
    let said = run(&program, &[&address, data.to_str().unwrap(), "behind"]);
    assert_eq!(said, "all is as it should be\n");
    server.stop().unwrap();
    scratch.demand_sound();
}

/// What a mount closed the library reads, and the other way round: small contents, large ones, names, attributes.
#[test]
fn beside_a_mount_each_sees_what_the_other_did() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let database = OpenOptions::new().open(&scratch.target()).unwrap();
    let mounted = scratch.mount(database);
    let program = scratch.compile("beside");
    let data = scratch.path("data");
    let at = scratch.path("mnt");
    let arguments = [
        &scratch.target(),
        data.to_str().unwrap(),
        at.to_str().unwrap(),
    ];
    assert_eq!(run(&program, &arguments), "both see the same\n");
    unmount(mounted);
    let fs = scratch.open();
    assert_eq!(fs.stat(&path("/from-library"), true).unwrap().size, 100_000);
    fs.close().unwrap();
    scratch.demand_sound();
}
