//! Certificates that `ssh-keygen` signs, in files and in an agent, and the lines that trust their authority.

use crate::openssh::{Agent, keygen, openssh};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use esker_access::{Folder, Granted, Identities, PublicKey, Refused, Rights, UserCertificate};
use esker_access::{authorized, proof};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));
const ED25519: [&str; 4] = ["-t", "ed25519", "-N", ""];

/// A folder with an authority, a user's key, and rights by `authorized_keys`.
struct Centre {
    dir: tempfile::TempDir,
    authority: PathBuf,
    key: PathBuf,
    rights: Rights,
}

impl Centre {
    fn new() -> Option<Self> {
        if !openssh() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let authority = keygen(&ED25519, &dir.path().join("ca"));
        let key = keygen(&ED25519, &dir.path().join("id_ed25519"));
        let folder = Arc::new(Folder::open(dir.path()).unwrap());
        Some(Self {
            rights: Rights::load_folder_only(&folder),
            dir,
            authority,
            key,
        })
    }

    fn public(path: &Path) -> String {
        let text = std::fs::read_to_string(path.with_extension("pub")).unwrap();
        assert!(PublicKey::from_openssh(&text).is_ok());
        text
    }

    /// Trusts the authority with these options.
    fn trust(&self, options: &str) {
        self.write(&format!("{options} {}", Self::public(&self.authority)));
    }

    fn write(&self, text: &str) {
        let path = self.dir.path().join(authorized::NAME);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        self.rights.refresh();
        assert_eq!(self.rights.mistakes(), Vec::<String>::new());
    }

    /// Signs the user's key.
    fn sign(&self, arguments: &[&str]) -> UserCertificate {
        self.sign_by(&self.authority, arguments)
    }

    fn sign_by(&self, authority: &Path, arguments: &[&str]) -> UserCertificate {
        let signed = Command::new("ssh-keygen")
            .args(["-q", "-I", "ada's card", "-s"])
            .arg(authority)
            .args(arguments)
            .arg(self.key.with_extension("pub"))
            .output()
            .unwrap();
        assert!(signed.status.success(), "{signed:?}");
        let text = std::fs::read_to_string(self.certificate()).unwrap();
        UserCertificate::parse(&text).unwrap()
    }

    fn certificate(&self) -> PathBuf {
        self.dir.path().join("id_ed25519-cert.pub")
    }

    fn logins(&self, certificate: &UserCertificate) -> Vec<String> {
        self.rights.logins_of(certificate, "", HERE).unwrap()
    }

    fn refused(&self, certificate: &UserCertificate) -> String {
        let refused = self.rights.logins_of(certificate, "", HERE);
        refused.unwrap_err().to_string()
    }
}

#[test]
fn a_trusted_authority_names_the_user() {
    let Some(centre) = Centre::new() else { return };
    centre.trust("cert-authority,principals=\"daemon,bin\",esker-role=\"read\"");
    let certificate = centre.sign(&["-n", "daemon,sync", "-V", "+1h"]);
    assert_eq!(centre.logins(&certificate), ["daemon"]);
    let Granted {
        user, login, until, ..
    } = centre
        .rights
        .of_certificate(&certificate, "daemon", HERE)
        .unwrap();
    assert_eq!(login.as_deref(), Some("daemon"));
    assert_eq!(user.unwrap().uid, 1);
    assert_eq!(until, certificate.end());
    for (login, why) in [
        ("sync", "accepts no certificates of CA"),
        ("root", "does not name user `root`"),
        ("bin", "does not name user `bin`: it names daemon, sync"),
    ] {
        let refused = centre.rights.of_certificate(&certificate, login, HERE);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    // Without a list, the authority is trusted for each user; an unknown user and root are refused.
    centre.trust("cert-authority");
    let certificate = centre.sign(&["-n", "root,no-such-user-7"]);
    assert_eq!(centre.logins(&certificate), ["root", "no-such-user-7"]);
    for login in ["root", "no-such-user-7"] {
        let refused = centre.rights.of_certificate(&certificate, login, HERE);
        assert!(
            matches!(refused, Err(Refused::NoUser { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn other_certificates_are_refused_with_the_reason() {
    let Some(centre) = Centre::new() else { return };
    centre.trust("cert-authority");
    let host = ["-h", "-n", "daemon"];
    for (arguments, why) in [
        (
            &["-n", "daemon", "-V", "20200101:20210101"][..],
            "expired at 2021",
        ),
        (
            &["-n", "daemon", "-V", "20900101:20910101"],
            "not valid before 2090",
        ),
        (&host, "is for a host"),
        (&[], "names no user"),
        (
            &["-n", "daemon", "-O", "force-command=date"],
            "critical option `force-command`",
        ),
        (
            &["-n", "daemon", "-O", "source-address=192.0.2.0/24"],
            "from 192.0.2.0/24 only",
        ),
    ] {
        let certificate = centre.sign(arguments);
        let refused = centre.refused(&certificate);
        assert!(refused.contains(why), "{arguments:?}: {refused}");
    }
    let near = centre.sign(&["-n", "daemon", "-O", "source-address=10.0.0.0/8"]);
    assert_eq!(centre.logins(&near), ["daemon"]);
    // Another authority, and a certificate whose text was changed.
    let other = keygen(&ED25519, &centre.dir.path().join("other"));
    let foreign = centre.sign_by(&other, &["-n", "daemon"]);
    assert!(centre.refused(&foreign).contains("does not trust"));
    let good = centre.sign(&["-n", "daemon"]).text();
    let (kind, data) = good.split_once(' ').unwrap();
    let mut bytes = STANDARD.decode(data).unwrap();
    let at = bytes.windows(6).position(|w| w == b"daemon").unwrap();
    bytes[at] = b'D';
    let changed = format!("{kind} {}", STANDARD.encode(bytes));
    let changed = UserCertificate::parse(&changed).unwrap();
    let refused = centre.refused(&changed);
    assert!(refused.contains("not signed by the CA"), "{refused}");
}

#[test]
fn lines_limit_and_revoke() {
    let Some(centre) = Centre::new() else { return };
    let certificate = centre.sign(&["-n", "daemon"]);
    centre.trust("cert-authority,expiry-time=\"20200101\"");
    assert!(centre.refused(&certificate).contains("time ended"));
    centre.trust("cert-authority,from=\"192.0.2.0/24\"");
    assert!(centre.refused(&certificate).contains("from 192.0.2.0/24"));
    let authority = Centre::public(&centre.authority);
    let key = Centre::public(&centre.key);
    // The key of an authority is not that of a client.
    centre.trust("cert-authority");
    let of_key = |text: &str| {
        let key = PublicKey::from_openssh(text).unwrap();
        centre.rights.of_key(key.key_data(), HERE)
    };
    assert_eq!(of_key(&authority), Err(Refused::Unknown));
    for revoked in [&authority, &key] {
        centre.write(&format!(
            "cert-authority {authority}esker-role=\"none\" {revoked}"
        ));
        let refused = centre.rights.logins_of(&certificate, "", HERE);
        assert_eq!(refused, Err(Refused::Revoked));
    }
}

#[test]
fn clients_find_certificates_in_files_and_agents() {
    let Some(centre) = Centre::new() else { return };
    let certificate = centre.sign(&["-n", "daemon"]);
    let check = |identities: &Identities| {
        let kinds: Vec<bool> = identities
            .keys
            .iter()
            .map(|k| k.certificate.as_ref() == Some(&certificate))
            .collect();
        assert_eq!(kinds, [true, false], "{}", identities.in_words());
        for identity in &identities.keys {
            let proved = proof::to_text(&identity.prove(&[9; 32]).unwrap()).unwrap();
            let key = proof::check(proved.as_bytes(), &[9; 32]).unwrap();
            assert_eq!(&key, certificate.key());
        }
        let offer = identities.keys[0].offer();
        assert_eq!(UserCertificate::parse(&offer).as_ref(), Ok(&certificate));
    };
    check(&Identities::gather(Some(&centre.key), None, None).unwrap());
    check(&Identities::gather(None, None, Some(centre.dir.path())).unwrap());
    let agent = Agent::start(centre.dir.path());
    agent.add(centre.dir.path(), &centre.key);
    std::fs::remove_file(centre.certificate()).unwrap();
    std::fs::remove_file(&centre.key).unwrap();
    let mut found = Identities::gather(None, Some(&agent.socket), None).unwrap();
    found.keys.sort_by_key(|k| k.certificate.is_none());
    check(&found);
}
