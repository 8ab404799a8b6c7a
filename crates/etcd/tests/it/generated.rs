//! The code generated from `proto/etcd.proto` is committed, so that a build needs no `protoc`. `UPDATE_PROTO=1`
//! regenerates it.

const HEADER: &str = "\
//! Generated from `proto/etcd.proto` by `UPDATE_PROTO=1 cargo test -p esker-etcd --test it generated`.

";

fn generate() -> String {
    let root = std::path::absolute("proto").unwrap();
    let files = protox::compile(["etcd.proto"], [&root]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    let code = std::fs::read_to_string(out.path().join("etcdserverpb.rs")).unwrap();
    format!("{HEADER}{code}")
}

#[test]
fn generated_code_is_fresh() {
    let path = std::path::absolute("src/generated/etcdserverpb.rs").unwrap();
    let code = generate();
    if std::env::var_os("UPDATE_PROTO").is_some() {
        std::fs::write(&path, &code).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == code,
        "`{}` is not what proto/etcd.proto says: UPDATE_PROTO=1 cargo test -p esker-etcd --test it generated",
        path.display()
    );
}
