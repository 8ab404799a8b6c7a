//! What secrets look like: names, options and tokens, as tables. Names of tokens follow the rules of gitleaks and what their makers document.

/// Parts of names that say that a secret is behind them, wherever they stand in the name.
pub(super) const PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api[_-]?key",
    "access[_-]?key",
    "account[_-]?key",
    "private[_-]?key",
    "encryption[_-]?key",
    "auth[_-]?key",
    "signing[_-]?key",
    "credential",
    "webhook[_-]?url",
];

/// Words that say so if they stand alone in a name, between `_`, `-`, `.` and its ends: `DB_PASS`, `--pass`, not `COMPASS`.
pub(super) const WORDS: &[&str] = &["pass", "pw", "jwt", "cookie", "_auth"];

/// Whole names of variables and settings that say so.
pub(super) const NAMES: &[&str] = &[
    "mysql_pwd",
    "[a-z0-9_]*_pwd",
    "sshpass",
    "docker_auth_config",
    // By these containers are fetched with `singularity` and `apptainer`: who fetches is nobody's business either.
    "[a-z0-9_]*docker_username",
    "[a-z0-9_]*docker_login",
];

/// Whole names that sound like secrets and are none.
pub(super) const NO_SECRETS: &[&str] = &[
    "pwd",
    "oldpwd",
    "[a-z0-9_]*old_pwd",
    "tokenizers_parallelism",
];

/// An option of some programs whose value is a secret.
pub(super) struct ProgramOption {
    /// The programs, by the names of their files.
    pub(super) programs: &'static [&'static str],
    /// The option.
    pub(super) option: &'static str,
    /// Whether the value may be the next word; else it stands with the option: `-pSECRET`.
    pub(super) apart: bool,
}

pub(super) const OPTIONS: &[ProgramOption] = &[
    ProgramOption {
        programs: &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlshow",
            "mysqlcheck",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
        ],
        option: "-p",
        apart: false,
    },
    ProgramOption {
        programs: &[
            "sshpass",
            "docker",
            "podman",
            "mongo",
            "mongosh",
            "mongodump",
            "az",
        ],
        option: "-p",
        apart: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "-u",
        apart: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "--user",
        apart: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "--proxy-user",
        apart: true,
    },
    ProgramOption {
        programs: &["smbclient"],
        option: "-U",
        apart: true,
    },
    ProgramOption {
        programs: &["redis-cli"],
        option: "-a",
        apart: true,
    },
    ProgramOption {
        programs: &["ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami"],
        option: "-w",
        apart: true,
    },
    ProgramOption {
        programs: &["mosquitto_pub", "mosquitto_sub"],
        option: "-P",
        apart: true,
    },
    ProgramOption {
        programs: &["openssl"],
        option: "-passin",
        apart: true,
    },
    ProgramOption {
        programs: &["openssl"],
        option: "-passout",
        apart: true,
    },
    ProgramOption {
        programs: &["7z", "7za", "unzip", "zip"],
        option: "-P",
        apart: true,
    },
];

/// Text around a secret, which is the group `s`; the letters' case counts unless the pattern says otherwise.
pub(super) const SURROUNDED: &[&str] = &[
    // A private key, whole.
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<s>.*?)(?:-----END|\z)",
    r"(?s)Private-Lines: [0-9]+\s(?P<s>.*?)(?:Private-MAC|\z)",
    // Authorization: SCHEME value, of any scheme; Proxy-Authorization.
    r#"(?i)authorization["']?\s*[:=]\s*["']?(?:[a-z][a-z0-9_-]*[ \t]+)?(?P<s>[^\s"'][^"'\n]*)"#,
    // Cookie: name=value; name=value.
    r#"(?i)\b(?:set-)?cookie["']?:\s*["']?(?P<s>[^\s"'][^"'\n]*)"#,
    // scheme://user:value@host.
    r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<s>[^\s/@]+)@",
    // A line of a netrc file.
    r"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<s>\S+)",
    // Addresses that were signed: Amazon's, Google's, Azure's.
    r#"(?i)\bX-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)=(?P<s>[^&\s"';]+)"#,
    r#"[?&;](?:sig|Signature|AWSAccessKeyId)=(?P<s>[^&\s"';]{8,})"#,
    r#"(?i)\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)=(?P<s>[^;\s"']+)"#,
    // Addresses that are secrets themselves.
    r#"(?i)\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[^\s"']+)"#,
    r#"(?i)\bdiscord(?:app)?\.com/api/webhooks/(?P<s>[^\s"']+)"#,
    r#"(?i)\bwebhook\.office\.com/(?P<s>[^\s"']+)"#,
];

/// Words before a secret that are also words of texts: only what looks random is one.
pub(super) const BEFORE_RANDOM: &[&str] = &[
    r"(?i)\b(?:bearer|basic)\s+(?P<s>[a-z0-9+/_.=~-]{8,})",
    r"(?i)\b[a-z][a-z0-9+.-]*://(?P<s>[a-z0-9_.~-]{20,})@",
];

/// Tokens that say themselves what they are, whole.
pub(super) const TOKENS: &[&str] = &[
    // Esker's own.
    "esker_[A-Za-z0-9_-]{43}",
    // GitHub, GitLab, Hugging Face.
    "gh[pousr]_[A-Za-z0-9]{20,}",
    "github_pat_[A-Za-z0-9_]{20,}",
    "gl(?:pat|ptt|dt|rt|soat|cbt|ft|imt|agent|oas|ffct)-[A-Za-z0-9_-]{16,}",
    "GR1348941[A-Za-z0-9_-]{16,}",
    "(?:hf|api_org)_[A-Za-z0-9]{20,}",
    // OpenAI and others of its form.
    "sk-[A-Za-z0-9_-]{20,}",
    "gsk_[A-Za-z0-9]{20,}",
    "r8_[A-Za-z0-9]{30,}",
    // Slack.
    "xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "xapp-[0-9]-[A-Za-z0-9-]{10,}",
    // Amazon, Google.
    "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}",
    "AIza[0-9A-Za-z_-]{35}",
    r"ya29\.[0-9A-Za-z_-]{20,}",
    "GOCSPX-[0-9A-Za-z_-]{20,}",
    // Packages and containers.
    "npm_[A-Za-z0-9]{30,}",
    "pypi-AgE[A-Za-z0-9_-]{16,}",
    "pypi-[A-Za-z0-9_-]{60,}",
    "dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    "rubygems_[0-9a-f]{40,}",
    "cio[A-Za-z0-9]{32}",
    // Clouds and services.
    "do[opr]_v1_[0-9a-f]{40,}",
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
    r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}",
    "dapi[a-f0-9]{32}",
    "gl(?:sa|c)_[A-Za-z0-9_+/=-]{20,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "tskey-[a-z]+-[A-Za-z0-9-]{16,}",
    "PMAK-[A-Za-z0-9]{20,}-[A-Za-z0-9]{20,}",
    "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    "AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    // JSON Web Tokens.
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
];

/// A piece of letters and digits that is shorter is not told from a name by how mixed it is.
pub(super) const RANDOM_LETTERS_MIN: usize = 24;
/// Of neighbouring characters of a random piece, so many in a hundred are of different classes (small letter, capital, digit): 62 on average, while
/// names made of words have less than 40.
pub(super) const RANDOM_CHANGES_MIN: usize = 44;
