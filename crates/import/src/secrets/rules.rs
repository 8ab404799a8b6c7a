//! Tables of names, options and tokens that are secrets. Names of tokens follow the rules of gitleaks and the documentation of their
//! vendors.

/// Parts of names that denote a secret, anywhere in the name.
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

/// Words that denote a secret if they are a separate word of the name, between `_`, `-`, `.` and its ends: `DB_PASS`, `--pass`, not
/// `COMPASS`.
pub(super) const NAME_WORDS: &[&str] = &["pass", "pw", "jwt", "cookie", "_auth"];

/// Full names of variables and settings that denote a secret.
pub(super) const NAMES: &[&str] = &[
    "mysql_pwd",
    "[a-z0-9_]*_pwd",
    "sshpass",
    "docker_auth_config",
    // Credentials with which `singularity` and `apptainer` fetch containers: the user name is redacted, too.
    "[a-z0-9_]*docker_username",
    "[a-z0-9_]*docker_login",
];

/// Full names that resemble those of secrets but are not.
pub(super) const NO_SECRETS: &[&str] = &[
    "pwd",
    "oldpwd",
    "[a-z0-9_]*old_pwd",
    "tokenizers_parallelism",
];

/// An option of some programs whose value is a secret.
pub(super) struct ProgramOption {
    /// Programs, by file name.
    pub(super) programs: &'static [&'static str],
    /// Option, with its dashes.
    pub(super) option: &'static str,
    /// Whether the value may be the next word; otherwise it follows directly: `-pSECRET`.
    pub(super) separate: bool,
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
        separate: false,
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
        separate: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "-u",
        separate: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "--user",
        separate: true,
    },
    ProgramOption {
        programs: &["curl"],
        option: "--proxy-user",
        separate: true,
    },
    ProgramOption {
        programs: &["smbclient"],
        option: "-U",
        separate: true,
    },
    ProgramOption {
        programs: &["redis-cli"],
        option: "-a",
        separate: true,
    },
    ProgramOption {
        programs: &["ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami"],
        option: "-w",
        separate: true,
    },
    ProgramOption {
        programs: &["mosquitto_pub", "mosquitto_sub"],
        option: "-P",
        separate: true,
    },
    ProgramOption {
        programs: &["openssl"],
        option: "-passin",
        separate: true,
    },
    ProgramOption {
        programs: &["openssl"],
        option: "-passout",
        separate: true,
    },
    ProgramOption {
        programs: &["7z", "7za", "unzip", "zip"],
        option: "-P",
        separate: true,
    },
];

/// Text around a secret, which is the group `s`; case-sensitive unless the pattern says otherwise.
pub(super) const SURROUNDED: &[&str] = &[
    // Private keys, including unterminated ones.
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?P<s>.*?)(?:-----END|\z)",
    r"(?s)Private-Lines: [0-9]+\s(?P<s>.*?)(?:Private-MAC|\z)",
    // Form: Authorization: SCHEME value, with any scheme; also Proxy-Authorization.
    r#"(?i)authorization["']?\s*[:=]\s*["']?(?:[a-z][a-z0-9_-]*[ \t]+)?(?P<s>[^\s"'][^"'\n]*)"#,
    // Form: Cookie: name=value; name=value.
    r#"(?i)\b(?:set-)?cookie["']?:\s*["']?(?P<s>[^\s"'][^"'\n]*)"#,
    // Form: scheme://user:value@host.
    r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<s>[^\s/@]+)@",
    // A line of a netrc file.
    r"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<s>\S+)",
    // Signed addresses: Amazon's, Google's, Azure's.
    r#"(?i)\bX-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)=(?P<s>[^&\s"';]+)"#,
    r#"[?&;](?:sig|Signature|AWSAccessKeyId)=(?P<s>[^&\s"';]{8,})"#,
    r#"(?i)\b(?:AccountKey|SharedAccessSignature|SharedAccessKey)=(?P<s>[^;\s"']+)"#,
    // Addresses that are secrets themselves.
    r#"(?i)\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[^\s"']+)"#,
    r#"(?i)\bdiscord(?:app)?\.com/api/webhooks/(?P<s>[^\s"']+)"#,
    r#"(?i)\bwebhook\.office\.com/(?P<s>[^\s"']+)"#,
];

/// Words before a secret that also occur in prose: only a random-looking string is a secret.
pub(super) const BEFORE_RANDOM: &[&str] = &[
    r"(?i)\b(?:bearer|basic)\s+(?P<s>[a-z0-9+/_.=~-]{8,})",
    r"(?i)\b[a-z][a-z0-9+.-]*://(?P<s>[a-z0-9_.~-]{20,})@",
];

/// Tokens with a distinctive prefix, in full.
pub(super) const TOKENS: &[&str] = &[
    // Tokens of Esker.
    "esker_[A-Za-z0-9_-]{43}",
    // GitHub, GitLab, Hugging Face.
    "gh[pousr]_[A-Za-z0-9]{20,}",
    "github_pat_[A-Za-z0-9_]{20,}",
    "gl(?:pat|ptt|dt|rt|soat|cbt|ft|imt|agent|oas|ffct)-[A-Za-z0-9_-]{16,}",
    "GR1348941[A-Za-z0-9_-]{16,}",
    "(?:hf|api_org)_[A-Za-z0-9]{20,}",
    // OpenAI and others of this form.
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
    // Registries of packages and containers.
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

/// Minimum length of a string of letters and digits to be judged by randomness; shorter ones cannot be distinguished from names.
pub(super) const RANDOM_LETTERS_MIN: usize = 24;
/// Minimum percentage of neighbouring characters of different classes (lower case, upper case, digit) in a random string: 62 on average,
/// while names made of words have less than 40.
pub(super) const RANDOM_CHANGES_MIN: usize = 44;
