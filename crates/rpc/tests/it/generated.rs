//! The code generated from `proto/` is committed, so that a build needs no protobuf compiler. `UPDATE_PROTO=1`
//! regenerates it.

const HEADER: &str = "\
//! Generated from `proto/esker/v1/*.proto` by `UPDATE_PROTO=1 cargo test -p esker-rpc --test it generated`.

";

fn generate() -> String {
    let root = std::path::absolute("proto").unwrap();
    let protos = [
        "esker/v1/access.proto",
        "esker/v1/esker.proto",
        "esker/v1/site.proto",
    ];
    let files = protox::compile(protos, [&root]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".esker.v1.Properties.packed")
        .bytes(".esker.v1.PeerMessage.message")
        .bytes(".esker.v1.GraphReply.items")
        .bytes(".esker.v1.UserAttribute.packed")
        .build_client(true)
        .build_server(true)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    let code = std::fs::read_to_string(out.path().join("esker.v1.rs")).unwrap();
    format!("{HEADER}{code}")
}

#[test]
fn generated_code_is_fresh() {
    let path = std::path::absolute("src/generated/esker.v1.rs").unwrap();
    let code = generate();
    if std::env::var_os("UPDATE_PROTO").is_some() {
        std::fs::write(&path, &code).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == code,
        "`{}` is not what proto/ says: UPDATE_PROTO=1 cargo test -p esker-rpc --test it generated",
        path.display()
    );
}
