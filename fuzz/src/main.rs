//! The program of all fuzz targets. With the feature `libfuzzer` (`make fuzz`), libFuzzer drives the target that `$ESKER_FUZZ_TARGET`
//! names; without the feature, the program replays files:
//!
//! ```text
//!  cargo run -p esker-fuzz -- TARGET FILE…
//! ```

#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
static TARGET: std::sync::OnceLock<esker_fuzz::Check> = std::sync::OnceLock::new();

#[cfg(feature = "libfuzzer")]
libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("ESKER_FUZZ_TARGET").unwrap_or_default();
        let check = esker_fuzz::find(&name).expect("$ESKER_FUZZ_TARGET is not a target");
        TARGET.get_or_init(|| check);
    },
    |bytes: &[u8]| {
        let check = TARGET.get().expect("it begins with `init`");
        check(bytes);
    }
);

#[cfg(not(feature = "libfuzzer"))]
fn main() -> Result<(), String> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let name = name.to_string_lossy();
    let Some(check) = esker_fuzz::find(&name) else {
        let names = esker_fuzz::TARGETS.map(|(name, _)| name).join(", ");
        return Err(format!(
            "`{name}` is not a target; expected TARGET FILE…, where TARGET is one of {names}"
        ));
    };
    for file in arguments {
        let bytes = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        check(&bytes);
    }
    Ok(())
}
