//! Tests of a cluster's configuration.

use super::*;

fn read(text: &str) -> Result<ClusterConfig> {
    ClusterConfig::from_toml(Path::new("/lab/lab.toml"), text)
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn stores_that_move_need_etcd_and_nothing_that_contradicts_it() {
    let config = read("servers = 3\nstores = 8\n").unwrap();
    let etcd = config.etcd.clone().unwrap();
    assert_eq!((etcd.stores, etcd.even), (8, true));
    assert_eq!(etcd.lease, Duration::from_secs(5));
    assert_eq!((config.parts(), config.ids().count()), (8, 8));
    let why = config.etcd_endpoints().unwrap_err().to_string();
    assert!(
        why.contains("names no etcd") && why.contains("endpoints"),
        "{why}"
    );
    let config = read(
        "servers = 1\n[etcd]\nendpoints = [\"http://a:1\"]\nlease = \"3s\"\nrebalance = \"manual\"\n",
    )
    .unwrap();
    let etcd = config.etcd.clone().unwrap();
    assert_eq!((etcd.stores, etcd.even), (16, false));
    assert_eq!(config.etcd_endpoints().unwrap(), ["http://a:1"]);
    let config = read(
        "servers = 1\n[etcd]\nendpoints = [\"https://a:1\"]\nca = \"ca.pem\"\nuser = \"u\"\npassword_file = \"/p\"\n",
    )
    .unwrap();
    let trust = config.etcd_trust().unwrap();
    assert!(trust.ca.unwrap().ends_with("ca.pem"));
    assert_eq!(trust.password_file.unwrap(), Path::new("/p"));
    for (text, expected) in [
        ("servers = 1\nstores = 65\n", "up to 64"),
        ("servers = 1\n[etcd]\nlease = \"1s\"\n", "from 2s to 1m"),
        (
            "servers = 1\n[etcd]\nendpoints = [\"a:1\"]\n",
            "a list of etcd's addresses",
        ),
        (
            "servers = 1\n[etcd]\nendpoints = [\"https://a:1\"]\n",
            "needs `ca`",
        ),
        (
            "servers = 1\n[etcd]\nendpoints = [\"http://a:1\"]\nuser = \"u\"\npassword_file = \"p\"\n",
            "are for etcd at https://",
        ),
        (
            "servers = 1\n[etcd]\nca = \"ca.pem\"\nkey = \"k\"\n",
            "go together",
        ),
        (
            "servers = 1\nstores = 8\nvnodes = 4\n",
            "8 stores need as many `vnodes`",
        ),
        (
            "servers = 1\nstores = 2\n[failover]\nproxy_after = \"1s\"\n",
            "is for clusters without etcd",
        ),
        (
            "servers = 1\nstores = 2\ndurability = \"window\"\n[checkpoint]\nlive = \"/x\"\n",
            "cannot be combined with `stores`",
        ),
    ] {
        let why = message(text);
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let config = read("servers = 3\n").unwrap();
    assert_eq!(
        config.servers,
        ["127.0.0.1:7400", "127.0.0.2:7400", "127.0.0.3:7400"]
    );
    assert_eq!(config.name, "lab");
    assert_eq!(config.storage, Path::new("/lab/lab.cluster"));
    assert_eq!(
        (config.placement, config.threshold, config.vnodes),
        (Kind::Dido, 128, 1024)
    );
    let config = read(
        "name = \"x\"\nstorage = \"/data\"\nplacement = \"giga+\"\nthreshold = 7\nvnodes = 16\ndurability = \"sync\"\n\
         servers = 2\nlisten = \"10.0.0.1:5\"\n[limits]\nwaiting = 9\n",
    )
    .unwrap();
    assert_eq!(config.servers, ["10.0.0.1:5", "10.0.0.1:6"]);
    assert_eq!(config.storage, Path::new("/data"));
    assert_eq!(config.settings.limits.waiting, 9);
    assert_eq!(config.durability, Durability::Sync);
    let config = read("servers = [\"a:1\", \"[::1]:2\"]\n").unwrap();
    assert_eq!(config.address(ServerId(1)), "[::1]:2");
    assert_eq!(config.map(), None);
    let config = read("servers = 2\n[failover]\nproxy_after = \"1500ms\"\n").unwrap();
    assert_eq!(config.proxy_after, Some(Duration::from_millis(1500)));
    assert_eq!(config.map(), Some("/lab/lab.cluster/map".into()));
    assert_eq!(config.checkpoint, None);
    assert_eq!((config.shared, config.shared_least), (None, 1_024));
    let config = read("servers = 2\nshared = \"between\"\nshared_least = 0\n").unwrap();
    assert_eq!(config.shared, Some("/lab/between".into()));
    assert_eq!(config.shared_least, 0);
    let config = read(
        "servers = 2\ndurability = \"window\"\n[checkpoint]\nlive = \"/dev/shm/x\"\nto = [\"/bb\", \"pfs\"]\nevery = \"5s\"\n",
    )
    .unwrap();
    let checkpoint = config.checkpoint.unwrap();
    assert_eq!(checkpoint.to, [Path::new("/bb"), Path::new("/lab/pfs")]);
    assert_eq!(
        (checkpoint.writes, checkpoint.every, checkpoint.reserve),
        (100_000, Duration::from_secs(5), 1 << 30)
    );
    let config =
        read("servers = 1\ndurability = \"window\"\n[checkpoint]\nlive = \"/x\"\n").unwrap();
    let window = config.window(ServerId(0)).unwrap().unwrap();
    assert_eq!(window.live, Path::new("/x/lab/server-0"));
    assert_eq!(
        window.to,
        [Path::new("/lab/lab.cluster/server-0/checkpoint")]
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    for (text, expected) in [
        (
            "servers = 2\nvnode = 4\n",
            "/lab/lab.toml:2:1: unknown key `vnode`; did you mean `vnodes`?",
        ),
        (
            "vnodes = 3\n",
            "/lab/lab.toml:1:10: `vnodes` holds a power of two up to 65536",
        ),
        (
            "placement = \"didoo\"\n",
            "`placement` holds one of \"dido\"",
        ),
        (
            "servers = [\"a\"]\n",
            "lab.toml:1:11: `servers` holds a list of \"HOST:PORT\"",
        ),
        ("servers = [\"a:1\", \"a:1\"]\n", "each once"),
        ("servers = 0\n", "`servers` holds a list"),
        ("name = \"x\"\n", "`servers` is missing"),
        (
            "servers = [\"a:1\"]\nlisten = \"127.0.0.1:7400\"\n",
            "`listen` requires a number of `servers`",
        ),
        (
            "servers = 4\nvnodes = 2\n",
            "4 servers need as many `vnodes`",
        ),
        (
            "servers = 2\n[limits]\nfronteer = 3\n",
            "did you mean `limits.frontier`?",
        ),
        (
            "servers = 2\nbackups = \"x\"\n",
            "the absolute path of a folder",
        ),
        (
            "servers = 2\ndurability = \"window\"\n",
            "durability \"window\" needs `checkpoint.live`",
        ),
        (
            "servers = 2\n[checkpoint]\nevery = \"1s\"\n",
            "`checkpoint.every` requires durability = \"window\"",
        ),
        (
            "servers = 2\n[checkpoint]\nto = []\n",
            "`checkpoint.to` holds a list of paths",
        ),
        (
            "servers = 2\nlisten = \"localhost\"\n",
            "`listen` holds the IP address and port",
        ),
        (
            "servers = 9\nlisten = \"10.0.0.1:65530\"\n",
            "there are no 9 addresses",
        ),
    ] {
        let message = message(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn greetings_of_others_are_refused() {
    let (one, two) = (ServerId(0), ServerId(1));
    let config = read("servers = 2\n").unwrap();
    assert_eq!(config.greeting_error(two, &config.greeting(one, two)), None);
    let other = |text: &str| {
        let greeting = read(text).unwrap().greeting(one, two);
        config.greeting_error(two, &greeting).unwrap()
    };
    assert_eq!(
        other("servers = 2\nthreshold = 256\n"),
        "server 0 runs with threshold 256, server 1 with 128: give both the same cluster file"
    );
    assert!(other("servers = 2\nvnodes = 16\n").contains("vnodes 16"));
    assert!(other("servers = 3\n").contains("127.0.0.3:7400"));
    assert!(other("servers = 2\nplacement = \"edge-cut\"\n").contains("placement edge-cut"));
    assert!(other("servers = 2\nname = \"b\"\n").contains("belongs to cluster `b`"));
    let meant = config
        .greeting_error(two, &config.greeting(one, one))
        .unwrap();
    assert!(meant.contains("meant server 0"), "{meant}");
    assert!(
        config
            .greeting_error(two, &config.greeting(two, two))
            .is_some()
    );
    assert!(
        config
            .greeting_error(two, &config.greeting(ServerId(7), two))
            .is_some()
    );
}

#[test]
fn a_storage_stays_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lab.toml");
    let read = |text: &str| ClusterConfig::from_toml(&file, text).unwrap();
    read("servers = 2\n").claim_storage().unwrap();
    read("servers = 2\nthreshold = 9\n")
        .claim_storage()
        .unwrap();
    for (text, expected) in [
        (
            "servers = 3\n",
            "was made with servers 2, and the cluster file says 3",
        ),
        ("servers = 2\nvnodes = 8\n", "with vnodes 1024"),
        (
            "servers = 2\nplacement = \"edge-cut\"\n",
            "with placement dido",
        ),
    ] {
        let message = read(text).claim_storage().unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}
