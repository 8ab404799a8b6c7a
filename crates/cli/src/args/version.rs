//! Text of `esker --version`.

use std::sync::OnceLock;

/// Commit from which the program was built. The scripts that build packages set the variable.
const COMMIT: Option<&str> = option_env!("ESKER_COMMIT");

/// Returns the version, the commit, the features and the platform of this program.
pub(crate) fn long_version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut engines = vec!["fjall"];
        if cfg!(feature = "rocksdb") {
            engines.push("rocksdb");
        }
        let libc = if cfg!(target_env = "musl") {
            "-musl"
        } else {
            ""
        };
        format!(
            "{}\ncommit: {}\nkey-value stores: {}\nplatform: {}-{}{libc}",
            env!("CARGO_PKG_VERSION"),
            COMMIT.unwrap_or("not recorded"),
            engines.join(", "),
            std::env::consts::OS,
            std::env::consts::ARCH,
        )
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_comes_first() {
        let text = super::long_version();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], env!("CARGO_PKG_VERSION"));
    }
}
