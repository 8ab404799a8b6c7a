//! C programs, compiled against the header and the library, on a folder, on a server, and together with a mount.

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

/// The library reads what a mount closed, and the other way round: small contents, large ones, names, attributes.
#[test]
fn library_and_mount_see_each_others_changes() {
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
