//! Source trees to be built.

use anyhow::Context as _;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILES: usize = 60;
const HEADERS: [&str; 12] = [
    "stdio.h",
    "stdlib.h",
    "string.h",
    "math.h",
    "unistd.h",
    "errno.h",
    "fcntl.h",
    "pthread.h",
    "signal.h",
    "time.h",
    "sys/stat.h",
    "sys/socket.h",
];

/// Generates a C project: files that include each other's headers and the system's, a library, a program.
pub(super) fn make(folder: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut objects = String::new();
    let mut main = String::from("#include <stdio.h>\n");
    for n in 0..FILES {
        std::fs::write(folder.join(format!("m{n}.h")), format!("int f{n}(int);\n"))?;
        let mut text = String::new();
        for header in HEADERS {
            writeln!(text, "#include <{header}>")?;
        }
        for other in [n, (n + 1) % FILES, (n * 7 + 3) % FILES] {
            writeln!(text, "#include \"m{other}.h\"")?;
        }
        writeln!(text, "int f{n}(int x) {{\n  int s = {n};")?;
        for k in 0..200 {
            writeln!(
                text,
                "  s = (s * {} + x) ^ (s >> {});",
                2 * k + 3,
                k % 7 + 1
            )?;
        }
        writeln!(text, "  return s + (int)strlen(\"{n}\");\n}}")?;
        std::fs::write(folder.join(format!("m{n}.c")), text)?;
        write!(objects, " m{n}.o")?;
        writeln!(main, "#include \"m{n}.h\"")?;
    }
    main.push_str("int main(void) { printf(\"%d\\n\", f0(1) + f1(2)); return 0; }\n");
    std::fs::write(folder.join("main.c"), main)?;
    let makefile = format!(
        "app: main.o libm.a\n\tcc -o app main.o libm.a\nlibm.a:{objects}\n\tar rcs libm.a{objects}\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n"
    );
    std::fs::write(folder.join("Makefile"), makefile)?;
    Ok(folder.to_owned())
}

/// Copies a tree, with times and modes.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    let status = status.context("starting cp")?;
    anyhow::ensure!(status.success(), "copying {} failed", from.display());
    Ok(())
}
