//! Certificates of a cluster's own etcd: an authority whose key is discarded, etcd's certificate, and that of its clients. Only processes
//! that can read the folder can use etcd.

use crate::io_failure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

/// Names in etcd's certificate; it listens only on this machine.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Number of characters in a line of PEM.
const LINE: usize = 64;
/// Names of the files for etcd and its clients.
const FILES: [&str; 5] = [
    "ca.pem",
    "server.pem",
    "server.key",
    "client.pem",
    "client.key",
];

/// Returns a certificate or a key in PEM form.
fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    for part in ["-----END ", label, "-----\n"] {
        out.push_str(part);
    }
    out
}

/// Writes a file with mode 0600 atomically.
pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
    let draft = file.with_extension("new");
    // A process that was killed may have left its temporary file.
    let _ = fs::remove_file(&draft);
    let mut options = File::options();
    let mut out = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&draft, file)
}

/// Creates the folder, or uses an existing one, and makes it private.
pub(crate) fn private_folder(folder: &Path) -> anyhow::Result<()> {
    let doing = || format!("making `{}`", folder.display());
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|e| io_failure(doing(), e))?;
    // The folder may be a link to one on another disk.
    let link = fs::symlink_metadata(folder).map_err(|e| io_failure(doing(), e))?;
    let about = fs::metadata(folder).map_err(|e| io_failure(doing(), e))?;
    let own = esker_access::peer::own_user();
    anyhow::ensure!(
        about.is_dir() && about.uid() == own && link.uid() == own,
        "`{}` is not a folder of user {own}, who starts etcd: its owner could impersonate the cluster's etcd",
        folder.display()
    );
    if about.mode() & 0o077 != 0 {
        let closed = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
        closed.map_err(|e| io_failure(doing(), e))?;
    }
    Ok(())
}

fn leaf(
    name: &str,
    names: &[&str],
    uses: Vec<ExtendedKeyUsagePurpose>,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<[String; 2], rcgen::Error> {
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let mut of = CertificateParams::new(names)?;
    of.distinguished_name.push(DnType::CommonName, name);
    of.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    of.extended_key_usages = uses;
    let signed = of.signed_by(&key, issuer)?;
    Ok([
        pem("CERTIFICATE", signed.der()),
        pem("PRIVATE KEY", &key.serialize_der()),
    ])
}

/// Returns the texts of all files, in the order of `FILES`.
fn generate() -> Result<[String; 5], rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut of = CertificateParams::new(Vec::new())?;
    of.distinguished_name.push(DnType::CommonName, "esker etcd");
    of.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    of.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = pem("CERTIFICATE", of.self_signed(&key)?.der());
    let issuer = Issuer::new(of, key);
    // etcd also presents its certificate to itself as a client.
    let both = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let [server, server_key] = leaf("etcd", &NAMES, both, &issuer)?;
    let only = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let [client, client_key] = leaf("esker", &[], only, &issuer)?;
    Ok([ca, server, server_key, client, client_key])
}

/// Creates the certificates in a private folder, unless all exist.
pub(crate) fn create_missing(folder: &Path) -> anyhow::Result<()> {
    if FILES.iter().all(|name| folder.join(name).is_file()) {
        return Ok(());
    }
    let all = generate().map_err(|e| anyhow::anyhow!("making certificates for etcd: {e}"))?;
    for (name, text) in FILES.iter().zip(&all) {
        let file = folder.join(name);
        write(&file, text).map_err(|e| io_failure(format!("writing `{}`", file.display()), e))?;
    }
    Ok(())
}
