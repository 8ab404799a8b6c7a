//! Keys, regions and endpoints from the environment, then `~/.aws`, as in Amazon's own tools.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Maximum size of a configuration file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Credentials and location of a bucket.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Key id and secret; without them requests are not signed, as public buckets allow.
    pub keys: Option<(Box<str>, Box<str>)>,
    /// Session token of temporary keys.
    pub token: Option<Box<str>>,
    /// The region of the bucket.
    pub region: Option<Box<str>>,
    /// `https://host[:port]` of a server other than Amazon's.
    pub endpoint: Option<Box<str>>,
}

/// Omits the secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("keys", &self.keys.as_ref().map(|(id, _)| id))
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

type Section = BTreeMap<String, String>;

/// Parses sections `[name]` with lines `key = value`; skips other lines.
fn sections(text: &str) -> BTreeMap<String, Section> {
    let mut all: BTreeMap<String, Section> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        // An indented line belongs to the line before: settings of one service, which are ignored.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            let words: Vec<&str> = section.split_whitespace().collect();
            name = match words[..] {
                ["profile", name] | [name] => name.to_owned(),
                _ => words.join(" "),
            };
        } else if let Some((key, value)) = line.split_once('=') {
            let section = all.entry(name.clone()).or_default();
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    all
}

impl Config {
    /// Reads the environment of this process and the files of its user. `profile` is a profile of these files.
    pub fn find(profile: Option<&str>) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let file = |variable_name: &str, name: &str| {
            let path = variable(variable_name).map(PathBuf::from);
            let path = path.or_else(|| Some(std::env::home_dir()?.join(".aws").join(name)))?;
            let short = std::fs::metadata(&path).ok()?.len() <= FILE_MAX;
            short.then(|| std::fs::read_to_string(path).ok()).flatten()
        };
        Self::of(
            profile,
            &variable,
            &file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default(),
            &file("AWS_CONFIG_FILE", "config").unwrap_or_default(),
        )
    }

    fn of(
        profile: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
        credentials: &str,
        config: &str,
    ) -> Self {
        let named = profile
            .map(str::to_owned)
            .or_else(|| variable("AWS_PROFILE"));
        let name = named.as_deref().unwrap_or("default");
        let section = |text: &str| sections(text).remove(name).unwrap_or_default();
        let (credentials, config) = (section(credentials), section(config));
        let from = |section: &Section| {
            let get = |key: &str| section.get(key).cloned();
            let keys = get("aws_access_key_id").zip(get("aws_secret_access_key"));
            keys.map(|keys| (keys, get("aws_session_token")))
        };
        let environment = || {
            let keys = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
            keys.map(|keys| (keys, variable("AWS_SESSION_TOKEN")))
        };
        // A named profile takes precedence over the environment.
        let keys = match profile {
            Some(_) => from(&credentials).or_else(|| from(&config)),
            None => environment()
                .or_else(|| from(&credentials))
                .or_else(|| from(&config)),
        };
        let (keys, token) = keys.unzip();
        let text = |s: String| s.into_boxed_str();
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        Self {
            keys: keys.map(|(id, secret)| (id.into(), secret.into())),
            token: token.flatten().map(text),
            region: region.or_else(|| config.get("region").cloned()).map(text),
            endpoint: endpoint
                .or_else(|| config.get("endpoint_url").cloned())
                .map(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = ID\naws_secret_access_key=SE=CRET\n# x\n[lab]\n\
        aws_access_key_id = LAB\naws_secret_access_key = WORD\naws_session_token = TOKEN\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  region = nowhere\n[profile lab]\nendpoint_url = http://lab:9000\n";

    fn found(profile: Option<&str>, variables: &[(&str, &str)]) -> Config {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::of(profile, &variable, CREDENTIALS, CONFIG)
    }

    #[test]
    fn keys_are_where_amazons_tools_have_them() {
        let config = found(None, &[]);
        assert_eq!(config.keys, Some(("ID".into(), "SE=CRET".into())));
        assert_eq!(config.region.as_deref(), Some("eu-west-1"));
        let keys = [
            ("AWS_ACCESS_KEY_ID", "A"),
            ("AWS_SECRET_ACCESS_KEY", "B"),
            ("AWS_REGION", "r"),
        ];
        let config = found(None, &keys);
        assert_eq!(config.keys, Some(("A".into(), "B".into())));
        assert_eq!(config.region.as_deref(), Some("r"));
        for lab in [
            found(Some("lab"), &keys),
            found(None, &[("AWS_PROFILE", "lab")]),
        ] {
            assert_eq!(lab.keys, Some(("LAB".into(), "WORD".into())));
            assert_eq!(lab.token.as_deref(), Some("TOKEN"));
            assert_eq!(lab.endpoint.as_deref(), Some("http://lab:9000"));
            assert!(!format!("{lab:?}").contains("WORD") && !format!("{lab:?}").contains("TOKEN"));
        }
        assert_eq!(found(Some("nobody"), &[]).keys, None);
    }

    proptest! {
        #[test]
        fn any_file_is_read(text in "(\\PC|\n|\\[|\\]|=)*") {
            let _ = sections(&text);
        }
    }
}
