//! `ls`, `cp`, `cat`, `mv`, `rm`, Python and MPI below the prefix, without a mount.

use crate::scratch::{Scratch, has};
use std::fs;
use std::process::Command;

#[test]
fn commands_of_everyday() {
    let scratch = Scratch::new();
    let large: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 + n / 500) as u8).collect();
    fs::write(scratch.path("small"), "hello\n").unwrap();
    fs::write(scratch.path("large"), &large).unwrap();

    scratch.run("mkdir", &["-p", "$LAB/run7/raw"]);
    scratch.run("cp", &["small", "large", "$LAB/run7"]);
    assert_eq!(scratch.run("ls", &["$LAB/run7"]), "large\nraw\nsmall\n");
    assert_eq!(scratch.run("cat", &["$LAB/run7/small"]), "hello\n");
    assert_eq!(
        scratch.run("stat", &["-c", "%s %F", "$LAB/run7/large"]),
        "200000 regular file\n"
    );
    let long = scratch.run("ls", &["-l", "$LAB/run7"]);
    assert!(
        long.contains("200000") && long.contains("drwxr-xr-x"),
        "{long}"
    );

    // A copy in both directions keeps the content.
    scratch.run("cp", &["$LAB/run7/large", "back"]);
    assert_eq!(fs::read(scratch.path("back")).unwrap(), large);
    scratch.run("cmp", &["large", "$LAB/run7/large"]);
    scratch.run("cp", &["-r", "$LAB/run7", "$LAB/run8"]);
    scratch.run("cmp", &["$LAB/run7/large", "$LAB/run8/large"]);

    // Commands that change the working directory.
    let said = scratch.run(
        "sh",
        &[
            "-c",
            "cd $LAB/run7 && pwd && echo more > raw/here && cat < raw/here",
        ],
    );
    assert_eq!(said, "/esker-preload-test/run7\nmore\n");

    // Moves inside the target and out of it.
    scratch.run("mv", &["$LAB/run8/small", "$LAB/run8/moved"]);
    scratch.run("mv", &["$LAB/run8/moved", "outside"]);
    assert_eq!(
        fs::read_to_string(scratch.path("outside")).unwrap(),
        "hello\n"
    );
    scratch.run("ln", &["-s", "large", "$LAB/run8/link"]);
    assert_eq!(scratch.run("readlink", &["$LAB/run8/link"]), "large\n");
    scratch.run("cmp", &["large", "$LAB/run8/link"]);
    scratch.run("chmod", &["600", "$LAB/run8/large"]);
    scratch.run(
        "touch",
        &["-d", "2001-02-03 04:05:06 UTC", "$LAB/run8/large"],
    );
    assert_eq!(
        scratch.run("stat", &["-c", "%a %Y", "$LAB/run8/large"]),
        "600 981173106\n"
    );
    scratch.run("truncate", &["-s", "12", "$LAB/run8/large"]);
    assert_eq!(
        scratch.run("wc", &["-c", "$LAB/run8/large"]),
        "12 /esker-preload-test/run8/large\n"
    );

    // A missing file gives the usual message.
    let said = scratch.fail("cat", &["$LAB/run9"]);
    assert_eq!(
        said,
        "cat: /esker-preload-test/run9: No such file or directory\n"
    );
    let said = scratch.fail("rmdir", &["$LAB/run7"]);
    assert!(said.contains("Directory not empty"), "{said}");
    scratch.run("rm", &["-r", "$LAB/run7", "$LAB/run8"]);
    assert_eq!(scratch.run("ls", &["-A", "$LAB"]), "");
    // Other files are not affected.
    assert_eq!(scratch.run("cat", &["small"]), "hello\n");
    assert!(!std::path::Path::new("/esker-preload-test").exists());
}

const SCRIPT: &str = r#"
import os, shutil, sys, mmap
lab = sys.argv[1]
os.makedirs(lab + "/a/b")
with open(lab + "/a/text", "w") as f:
    for n in range(1000):
        print("line", n, file=f)
with open(lab + "/a/text") as f:
    lines = f.readlines()
assert len(lines) == 1000 and lines[999] == "line 999\n", len(lines)
with open(lab + "/a/text", "a") as f:
    f.write("more\n")
assert os.path.getsize(lab + "/a/text") == sum(map(len, lines)) + 5
with open(lab + "/a/text", "r+b") as f:
    f.seek(5)
    f.write(b"X")
    f.flush()
    assert os.fstat(f.fileno()).st_size == os.path.getsize(lab + "/a/text")
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        assert m[:7] == b"line X\n", m[:7]
assert sorted(e.name for e in os.scandir(lab + "/a")) == ["b", "text"]
os.setxattr(lab + "/a/text", "user.esker.campaign", b"winter24")
assert os.getxattr(lab + "/a/text", "user.esker.campaign") == b"winter24"
assert "user.esker.campaign" in os.listxattr(lab + "/a/text")
os.rename(lab + "/a/text", lab + "/a/b/text")
shutil.copytree(lab + "/a", lab + "/c")
assert [d[2] for d in os.walk(lab + "/c")] == [[], ["text"]]
left = open(lab + "/left", "w")
left.write("nobody closes this")
try:
    open(lab + "/a", "w")
    raise SystemExit("a directory was written")
except IsADirectoryError:
    pass
shutil.rmtree(lab + "/c")
os.dup2(os.open(lab + "/said", os.O_CREAT | os.O_WRONLY), 1)
print("into a file")
"#;

#[test]
fn a_python_script() {
    if !has("python3") {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("script.py"), SCRIPT).unwrap();
    assert_eq!(scratch.run("python3", &["script.py", "$LAB"]), "");
    assert_eq!(scratch.run("cat", &["$LAB/left"]), "nobody closes this");
    assert_eq!(scratch.run("cat", &["$LAB/said"]), "into a file\n");
    assert_eq!(scratch.run("ls", &["$LAB"]), "a\nleft\nsaid\n");
}

const PROGRAM: &str = r#"
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char path[256];
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "%s/part.%d.%d", argv[1], rank, i);
        FILE *f = fopen(path, "w");
        if (!f || fprintf(f, "rank %d wrote this\n", rank) < 0 || fclose(f) != 0) {
            perror(path);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* The neighbour's. */
    int next = (rank + 1) % size, read;
    snprintf(path, sizeof path, "%s/part.%d.7", argv[1], next);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "rank %d wrote this", &read) != 1 || read != next) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fclose(f);
    int files = 0;
    DIR *d = opendir(argv[1]);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        files += strncmp(e->d_name, "part.", 5) == 0;
    closedir(d);
    printf("rank %d of %d sees %d files\n", rank, size, files);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn an_mpi_program() {
    if !has("mpirun") || !has("mpicc") {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("job.c"), PROGRAM).unwrap();
    let compiled = Command::new("mpicc")
        .args(["-O1", "-D_FORTIFY_SOURCE=2", "-o", "job", "job.c"])
        .current_dir(scratch.folder.path())
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    scratch.run("mkdir", &["$LAB/out"]);
    // The launcher itself does not need the library.
    let preload = scratch.command("true", &[]);
    let of = |key: &str| {
        let (_, value) = preload.get_envs().find(|(k, _)| *k == key).unwrap();
        format!("{key}={}", value.unwrap().to_str().unwrap())
    };
    let out = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-np", "3", "env"])
        .args([of("LD_PRELOAD"), of("ESKER_PRELOAD")])
        .args(["./job", "/esker-preload-test/out"])
        .current_dir(scratch.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert_eq!(said.matches("of 3 sees 150 files").count(), 3, "{said}");
}

#[test]
fn what_cannot_be_opened_is_told() {
    let scratch = Scratch::new();
    let out = scratch
        .command("cat", &["$LAB/x"])
        .env("ESKER_PRELOAD", "/esker-preload-test=/no/database;nonsense")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("`nonsense`: there is no `=`"), "{said}");
    assert!(said.contains("`/no/database` cannot be opened"), "{said}");
    assert!(
        said.contains("cat: /esker-preload-test/x: Input/output error"),
        "{said}"
    );
}
