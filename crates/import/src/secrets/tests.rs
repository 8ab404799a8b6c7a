//! Tables of texts with and without secrets.

use super::*;
use proptest::prelude::*;

/// Letters of tokens, as random as real ones.
const LONG: &str = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5zA7cD9eF2g";

/// Pairs of a text, and the secret that must be removed.
fn positives() -> Vec<(String, String)> {
    let fixed = [
        // Names of variables and settings.
        ("export DB_PASSWORD=hunter2", "hunter2"),
        ("DB_PASS=hunter2 ./run", "hunter2"),
        ("MYSQL_PWD=hunter2 mysqldump x", "hunter2"),
        ("export SSHPASS=hunter2", "hunter2"),
        ("RSYNC_PASSWORD='hunter 2'", "hunter 2"),
        ("WANDB_API_KEY='abc def' ./run", "abc def"),
        ("X_API-KEY: hunter2", "hunter2"),
        ("{\"client_secret\": \"xyz\", \"k\": 3}", "xyz"),
        ("db.pass=hunter2", "hunter2"),
        ("npm config set _auth=aHVudGVyMg==", "aHVudGVyMg=="),
        ("SINGULARITY_DOCKER_PASSWORD=hunter2", "hunter2"),
        ("APPTAINER_DOCKER_USERNAME=ada", "ada"),
        ("PRIVATE-TOKEN: hunter2", "hunter2"),
        // Literal texts that only begin like a shell reference.
        ("PASSWORD='$ecret'", "$ecret"),
        ("PASSWORD=$1$salt$hash", "$1$salt$hash"),
        ("PASSWORD=$ecret!x", "$ecret!x"),
        // Options of programs.
        ("mysql --password=s3cret -u me", "s3cret"),
        ("tool --pass hunter2 in.nc", "hunter2"),
        ("tool --pass=hunter2 in.nc", "hunter2"),
        ("tool --auth-token t0k3n in.nc", "t0k3n"),
        ("tool -token t0k3n in.nc", "t0k3n"),
        ("mysql -u me -phunter2 lab", "hunter2"),
        ("/usr/bin/mysqldump -h db -phunter2 lab > x", "hunter2"),
        ("sshpass -p hunter2 scp a b:", "hunter2"),
        ("sshpass -phunter2 scp a b:", "hunter2"),
        ("curl -u me:hunter2 https://host/x", "hunter2"),
        ("curl --user me:hunter2 https://host/x", "hunter2"),
        ("redis-cli -h db -a hunter2 get x", "hunter2"),
        ("ldapsearch -x -w hunter2 cn=x", "hunter2"),
        ("docker login -u me -p hunter2 registry", "hunter2"),
        ("openssl rsa -passin pass:hunter2 -in k", "hunter2"),
        ("smbclient //h/s -U me%hunter2", "hunter2"),
        // HTTP headers.
        (
            "curl -H \"Authorization: Bearer abcdefgh12345678\" x",
            "abcdefgh12345678",
        ),
        ("curl -H \"Authorization: Token hunter2\" x", "hunter2"),
        ("curl -H 'Authorization: hunter2' x", "hunter2"),
        (
            "Proxy-Authorization: Basic bWU6aHVudGVyMg==",
            "bWU6aHVudGVyMg==",
        ),
        ("{\"Authorization\": \"token hunter2\"}", "hunter2"),
        ("curl -H 'Cookie: session=hunter2; k=v' x", "hunter2"),
        ("curl -H 'X-Auth-Token: hunter2' x", "hunter2"),
        // Addresses with credentials.
        ("git clone https://me:pw123@host/x.git", "pw123"),
        (
            "s3://b/x?X-Amz-Algorithm=A&X-Amz-Signature=0123abcd&k=v",
            "0123abcd",
        ),
        (
            "x?X-Amz-Credential=AKIDX%2F2026&X-Amz-Security-Token=FwoGZX",
            "FwoGZX",
        ),
        ("x?X-Goog-Signature=0123abcd", "0123abcd"),
        (
            "https://a.blob.core.windows.net/c?sv=2022&sig=ab%2Fcd%3D12",
            "ab%2Fcd%3D12",
        ),
        ("AccountName=x;AccountKey=abc/def==;Suffix=y", "abc/def=="),
        (
            "https://hooks.slack.com/services/T01/B02/hunter2",
            "hunter2",
        ),
        (
            "https://hooks.slack.com/workflows/T01/B02/hunter2",
            "hunter2",
        ),
        ("https://discord.com/api/webhooks/123/hunter2", "hunter2"),
        ("machine host login me password hunter2", "hunter2"),
        // Private keys.
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nls",
            "MIIE",
        ),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END",
            "b3Bl",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", "MIIE"),
        (
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQdG\n-----END",
            "lQdG",
        ),
        ("Private-Lines: 1\nAAAAgQ\nPrivate-MAC: 00", "AAAAgQ"),
    ];
    let mut all: Vec<(String, String)> = fixed
        .iter()
        .map(|(text, secret)| ((*text).to_owned(), (*secret).to_owned()))
        .collect();
    // Tokens with distinctive prefixes, assembled here so that scanners do not take this file for a leak.
    let hex = "0123456789abcdef".repeat(4);
    let long = |count: usize| LONG.get(..count).unwrap().to_owned();
    let plain = |count: usize| {
        "abcdefghij0123456789"
            .repeat(5)
            .get(..count)
            .unwrap()
            .to_owned()
    };
    for token in [
        format!("esker_{LONG}"),
        format!("ghp_{}", plain(36)),
        format!("ghs_{}", plain(36)),
        format!("github_pat_{}", plain(60)),
        format!("glpat-{}", plain(20)),
        format!("glrt-{}", plain(20)),
        format!("hf_{}", plain(34)),
        format!("sk-{}", plain(48)),
        format!("sk-proj-{}", plain(48)),
        format!("xoxb-{}", "123456789012-123456789012-abcdef"),
        format!("xapp-1-A012-{}", plain(20)),
        format!("AKIA{}", "IOSFODNN7EXAMPLE"),
        format!("ASIA{}", "IOSFODNN7EXAMPLE"),
        format!("AIza{}", plain(35)),
        format!("ya29.{}", plain(40)),
        format!("npm_{}", plain(36)),
        format!("pypi-AgEIcHlwaS5vcmc{}", plain(40)),
        format!("dckr_pat_{}", plain(27)),
        format!("dop_v1_{hex}"),
        format!("hvs.{}", plain(30)),
        format!("dapi{}", &hex[..32]),
        format!("glsa_{}", plain(32)),
        format!("SG.{}.{}", plain(22), plain(43)),
        format!("sk_live_{}", plain(24)),
        format!("tskey-auth-{}", plain(20)),
        format!("123456789:AA{}", plain(33)),
        format!("eyJhbGciOiJI.eyJzdWIiOiIx.{}", plain(20)),
        // Tokens of unknown kinds: recognized by randomness.
        LONG.to_owned(),
        long(32),
    ] {
        all.push((format!("echo {token}"), token.clone()));
        all.push((format!("./tool --in '{token}'"), token.clone()));
        all.push((format!("X={token}"), token));
    }
    all.push((format!("https://{}@host/x.git", long(30)), long(30)));
    all
}

/// Texts without secrets, which stay unchanged.
const NEGATIVES: &[&str] = &[
    "export TOKEN=$MY_TOKEN",
    "export TOKEN=${MY_TOKEN:-none}",
    "PASSWORD=\"$(cat ~/.pw)\"",
    "OMP_NUM_THREADS=8 ./a.out < in > out",
    "http://host:8080/path",
    "PWD=/home/ada/work",
    "OLDPWD=/home/ada",
    "mkdir -p /scratch/ada/out",
    "srun -pdebug -n4 ./wrf.exe",
    "ssh -p22 host",
    "docker run -it image",
    "mysql -p lab",
    "TOKENIZERS_PARALLELISM=false",
    "./compass --passes 3 --bypass=yes",
    "COMPASS=north PASSES=3",
    // Commits, hashes, UUIDs, ids.
    "git checkout 3857d08b1f0c4c5e9a7d6b8f2e1c0a9d8b7f6e5d",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B",
    "01912a4b-97a1-7000-8000-0123456789ab",
    "spack load /abcdefghijklmnopqrstuvwxyz234567",
    "execution:01jnk8x3c4d5e6f7g",
    // Paths and names of files, modules and containers.
    "/home/ada/projects/2026/ClimateModel/run-42/output/tas_Amon_MPI-ESM1-2-HR_historical_r1i1p1f1_gn_185001-201412.nc",
    "/apps/easybuild/software/OpenMPI/4.1.4-GCC-12.2.0/bin/mpirun",
    "S2A_MSIL1C_20230105T105421_N0509_R051_T31TCJ_20230105T124512.SAFE",
    "MOD13Q1.A2023001.h18v04.061.2023020160003.hdf",
    "numpy-1.26.4-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "ThisIsAVeryLongClassNameOfAJavaProgramThatRunsForDays2",
    "LOADEDMODULES=gcc/12.2:hdf5/1.14:netcdf-c/4.9.0-gompi-2022b",
    "node[001-128],gpu[01-16]",
    "docker://ghcr.io/org/image:2026.03-cuda12.4",
    "0x7ffeefbff5c8 0xdeadbeefdeadbeefdeadbeef",
    "a basic configuration of bearer plates",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "signal=11 design=x signature=ok",
];

#[test]
fn secrets_go() {
    for (text, secret) in positives() {
        for told in [
            redacted(&text).into_owned(),
            Redactor::default().value(&text),
        ] {
            assert!(!told.contains(&secret), "{text}: {told}");
            assert!(told.contains(MARK), "{text}: {told}");
        }
    }
}

#[test]
fn what_is_no_secret_stays() {
    for text in NEGATIVES {
        assert_eq!(redacted(text), *text);
    }
    // An option whose name only resembles a secret's loses its value: a false positive is preferred.
    let script = "#!/bin/bash\n#SBATCH -N4\nsrun ./wrf.exe --tokens-per-step 3 namelist.input";
    let told = redacted(script);
    assert!(
        told.contains("#SBATCH -N4") && told.contains("namelist.input"),
        "{told}"
    );
}

#[test]
fn the_rest_of_a_line_stays() {
    for (text, wanted) in [
        ("mysql -u me -phunter2 lab", "mysql -u me -p[redacted] lab"),
        (
            "sshpass -p 'hunter 2' scp a b:",
            "sshpass -p '[redacted]' scp a b:",
        ),
        (
            "WANDB_API_KEY='abc def' ./run",
            "WANDB_API_KEY='[redacted]' ./run",
        ),
        (
            "curl -H \"Authorization: Bearer abcdefgh12345678\" x",
            "curl -H \"Authorization: Bearer [redacted]\" x",
        ),
        (
            "git clone https://me:pw123@host/x.git",
            "git clone https://me:[redacted]@host/x.git",
        ),
        (
            "{\"client_secret\": \"xyz\", \"k\": 3}",
            "{\"client_secret\": \"[redacted]\", \"k\": 3}",
        ),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nls",
            "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nls",
        ),
    ] {
        assert_eq!(redacted(text), wanted);
    }
}

#[test]
fn names_say_what_they_hold() {
    for name in [
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASS",
        "PASS",
        "--pass",
        "MYSQL_PWD",
        "SSHPASS",
        "api-key",
        "SINGULARITY_DOCKER_USERNAME",
        "APPTAINER_DOCKER_PASSWORD",
        "DOCKER_AUTH_CONFIG",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "SLURM_JWT",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "PATH",
        "PWD",
        "OLDPWD",
        "COMPASS",
        "PASSES",
        "BYPASS",
        "k",
        "TOKENIZERS_PARALLELISM",
        "MPI_AUTHOR",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn words_of_a_command_are_looked_at_together() {
    let told = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Redactor::default().command_words(&words).join(" ")
    };
    for (words, wanted) in [
        (
            &["mysql", "-u", "me", "-phunter2", "lab"][..],
            "mysql -u me -p[redacted] lab",
        ),
        (&["mysql", "-p", "lab"], "mysql -p lab"),
        (
            &["/usr/bin/sshpass", "-p", "hunter2", "scp", "a"],
            "/usr/bin/sshpass -p [redacted] scp a",
        ),
        (
            &["curl", "-u", "me:x", "-o", "out"],
            "curl -u [redacted] -o out",
        ),
        (&["curl", "--user=me:x"], "curl --user=[redacted]"),
        (&["curl", "--url", "http://host"], "curl --url http://host"),
        (
            &["tool", "--pass", "hunter2", "in"],
            "tool --pass [redacted] in",
        ),
        (
            &["tool", "--pass", "--quiet", "in"],
            "tool --pass --quiet in",
        ),
        (&["tool", "--token=abc"], "tool --token=[redacted]"),
        // The shell has already run: a dollar sign is a letter as any other.
        (&["tool", "password=$ecret"], "tool password=[redacted]"),
        (&["ssh", "-p", "22", "host"], "ssh -p 22 host"),
    ] {
        assert_eq!(told(words), wanted);
    }
}

#[test]
fn patterns_of_a_users_own_go_too() {
    let own = Redactor::new(["patient-[0-9]+", "beam=(?P<s>[a-z]+)"]).unwrap();
    assert_eq!(
        own.value("x patient-42 beam=secretly y"),
        "x [redacted] beam=[redacted] y"
    );
    assert_eq!(own.named("k", "patient-7"), MARK);
    assert_eq!(
        own.command_words(&["a".into(), "patient-1".into()]),
        ["a", MARK]
    );
    let why = Redactor::new(["("]).unwrap_err();
    assert!(why.contains("`(` is not a regular expression"), "{why}");
    assert!(
        Redactor::new([r"\w{1000}{1000}"]).is_err(),
        "one that is too large"
    );
}

proptest! {
    /// Redaction is idempotent.
    #[test]
    fn once_is_enough(text in "[a-zA-Z_=: \"'$@/.-]{0,80}(password=[a-z]{1,8})?[ -~]{0,40}") {
        let once = redacted(&text).into_owned();
        prop_assert_eq!(redacted(&once), once.as_str());
    }
}
