//! Rendered output for people and programs.

use super::recorded::{Recorded, at, lasting};
use crate::{
    LineageOptions, TreeStyle, impact, lineage, render_dot, render_json, render_tree,
    write_json_string, write_json_value,
};
use esker_model::{NeverCancel, Properties, Schema, Value};
use expect_test::expect;

const NONE: Properties = Properties::new();

fn example() -> Recorded {
    let mut g = Recorded::new();
    let times = |from: u64, to: u64| lasting(from, to);
    g.put(
        "job:1",
        at(5),
        times(5, 15).with("command", "./app_write -n 4"),
    );
    g.put(
        "job:2",
        at(18),
        times(18, 30)
            .with("command", "./app_readAB_writeC")
            .with("nprocs", 4_i64),
    );
    g.link(
        "job:1",
        "write",
        "file:/lab/A",
        at(11),
        times(10, 11).with("bytes", 4096_i64),
    );
    g.link(
        "job:1",
        "write",
        "file:/lab/B",
        at(12),
        times(11, 12).with("bytes", 100_i64),
    );
    g.link(
        "job:2",
        "read",
        "file:/lab/A",
        at(21),
        times(20, 21).with("bytes", 4096_i64),
    );
    g.link(
        "job:2",
        "read",
        "file:/lab/B",
        at(21),
        times(20, 21).with("bytes", 100_i64),
    );
    g.link(
        "job:2",
        "write",
        "file:/lab/C",
        at(25),
        times(22, 25).with("bytes", 8192_i64),
    );
    g.link("user:alice", "run", "job:2", at(18), NONE);
    g.link("job:2", "exe", "executable:/bin/app", at(18), NONE);
    g.delete("file:/lab/A", at(40));
    g
}

/// The record of a scheduler's job is shown once, with the first of its parts.
#[test]
fn a_tree_shows_the_record_of_the_job() {
    let mut g = Recorded::new();
    let script: Vec<String> = (1..=12).map(|n| format!("srun ./step{n}")).collect();
    g.put(
        "job:77",
        at(5),
        lasting(5, 40)
            .with("state", "COMPLETED")
            .with("account", "climate")
            .with("script", script.join("\n")),
    );
    for (part, from, to) in [
        ("job:77-1", "file:A", "file:B"),
        ("job:77-2", "file:B", "file:C"),
    ] {
        g.link(part, "belongs", "job:77", at(9), NONE);
        g.job(part, &[from], &[to], if to == "file:B" { 10 } else { 20 });
    }
    let tree = |target: &str| {
        let found = lineage(&g, g.id(target), &LineageOptions::default(), &NeverCancel).unwrap();
        render_tree(&found, &Schema::default(), &TreeStyle::default())
    };
    expect![[r#"
        file:C  version 1970-01-01T00:00:21.000Z
        └─ written by job:77-2  part of job:77
           │  in job:77  1970-01-01T00:00:05Z to 1970-01-01T00:00:40Z  COMPLETED  account climate
           │     srun ./step1
           │     srun ./step2
           │     srun ./step3
           │     srun ./step4
           │     srun ./step5
           │     srun ./step6
           │     srun ./step7
           │     srun ./step8
           │     srun ./step9
           │     srun ./step10
           │     … 2 more lines
           └─ read file:B  version 1970-01-01T00:00:11.000Z
              └─ written by job:77-1  part of job:77
                 └─ read file:A

        2 executions, 3 data objects; complete
    "#]]
    .assert_eq(&tree("file:C"));
    expect![[r#"
        job:77  1970-01-01T00:00:05Z to 1970-01-01T00:00:40Z  COMPLETED  account climate
        │  srun ./step1
        │  srun ./step2
        │  srun ./step3
        │  srun ./step4
        │  srun ./step5
        │  srun ./step6
        │  srun ./step7
        │  srun ./step8
        │  srun ./step9
        │  srun ./step10
        │  … 2 more lines
        ├─ contains job:77-2  part of job:77
        │  └─ read file:B  version 1970-01-01T00:00:11.000Z
        │     └─ written by job:77-1  part of job:77
        │        └─ read file:A
        └─ contains job:77-1  part of job:77  ↑ above

        3 executions, 2 data objects; complete
    "#]]
    .assert_eq(&tree("job:77"));
}

#[test]
fn a_tree() {
    let g = example();
    let found = lineage(
        &g,
        g.id("file:/lab/C"),
        &LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap();
    let tree = render_tree(&found, &Schema::default(), &TreeStyle::default());
    expect![[r#"
        file:/lab/C  version 1970-01-01T00:00:25.000Z
        └─ written by job:2  1970-01-01T00:00:18Z to 1970-01-01T00:00:30Z  run by user:alice  exe executable:/bin/app  8.0 KiB
           │  $ ./app_readAB_writeC
           ├─ read file:/lab/A  (deleted)  version 1970-01-01T00:00:11.000Z  4.0 KiB
           │  └─ written by job:1  1970-01-01T00:00:05Z to 1970-01-01T00:00:15Z  4.0 KiB
           │        $ ./app_write -n 4
           └─ read file:/lab/B  version 1970-01-01T00:00:12.000Z  100 B
              └─ written by job:1  1970-01-01T00:00:05Z to 1970-01-01T00:00:15Z  100 B
                    $ ./app_write -n 4

        2 executions, 3 data objects; complete
    "#]].assert_eq(&tree);
    let narrow = TreeStyle {
        width: Some(48),
        ascii: true,
        attributes: true,
        ..TreeStyle::default()
    };
    let tree = render_tree(&found, &Schema::default(), &narrow);
    assert!(
        tree.lines()
            .all(|l| l.chars().count() <= 48 && l.is_ascii())
    );
    expect![[r#"
        file:/lab/C  version 1970-01-01T00:00:25.000Z
        `- written by job:2
           |  1970-01-01T00:00:18Z to 1970-01-01T00:0...
           |  run by user:alice  exe executable:/bin/app
           |  8.0 KiB
           |  $ ./app_readAB_writeC
           |  end: "1970-01-01T00:00:30Z"
           |  nprocs: 4
           |  start: "1970-01-01T00:00:18Z"
           |- read file:/lab/A  (deleted)
           |  |  version 1970-01-01T00:00:11.000Z
           |  |  4.0 KiB
           |  `- written by job:1
           |        1970-01-01T00:00:05Z to 1970-01-0...
           |        4.0 KiB
           |        $ ./app_write -n 4
           |        end: "1970-01-01T00:00:15Z"
           |        start: "1970-01-01T00:00:05Z"
           `- read file:/lab/B
              |  version 1970-01-01T00:00:12.000Z  100 B
              `- written by job:1
                    1970-01-01T00:00:05Z to 1970-01-0...
                    100 B
                    $ ./app_write -n 4
                    end: "1970-01-01T00:00:15Z"
                    start: "1970-01-01T00:00:05Z"

        2 executions, 3 data objects; complete
    "#]]
    .assert_eq(&tree);
}

#[test]
fn an_impact_by_user() {
    let g = example();
    let options = LineageOptions {
        depth: Some(1),
        ..LineageOptions::default()
    };
    let found = impact(&g, g.id("job:1"), &options, &NeverCancel).unwrap();
    expect![[r#"
        job:1  1970-01-01T00:00:05Z to 1970-01-01T00:00:15Z
        │  $ ./app_write -n 4
        ├─ wrote file:/lab/B  version 1970-01-01T00:00:12.000Z  100 B
        │  └─ read by job:2  1970-01-01T00:00:18Z to 1970-01-01T00:00:30Z  run by user:alice  exe executable:/bin/app  100 B
        │     │  $ ./app_readAB_writeC
        │     └─ wrote file:/lab/C  version 1970-01-01T00:00:25.000Z  8.0 KiB
        └─ wrote file:/lab/A  (deleted)  version 1970-01-01T00:00:11.000Z  4.0 KiB
           └─ read by job:2  1970-01-01T00:00:18Z to 1970-01-01T00:00:30Z  run by user:alice  exe executable:/bin/app  4.0 KiB  ↑ above

        (user unknown)  1 execution, 2 data objects, 4.1 KiB written
        user:alice  1 execution, 1 data object, 8.0 KiB written

        2 executions, 3 data objects; complete
    "#]].assert_eq(&render_tree(&found, &Schema::default(), &TreeStyle::default()));
    let found = impact(
        &g,
        g.id("user:alice"),
        &LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap();
    expect![[r#"
        user:alice
        └─ ran job:2  1970-01-01T00:00:18Z to 1970-01-01T00:00:30Z  run by user:alice  exe executable:/bin/app
           │  $ ./app_readAB_writeC
           └─ wrote file:/lab/C  version 1970-01-01T00:00:25.000Z  8.0 KiB

        user:alice  1 execution, 1 data object, 8.0 KiB written

        1 execution, 1 data object; complete
    "#]].assert_eq(&render_tree(&found, &Schema::default(), &TreeStyle::default()));
}

#[test]
fn json_has_the_documented_format() {
    let g = example();
    let options = LineageOptions {
        depth: Some(1),
        ..LineageOptions::default()
    };
    let found = lineage(&g, g.id("file:/lab/C"), &options, &NeverCancel).unwrap();
    let json = render_json(&found, &Schema::default());
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    expect![[r#"
        {
          "target": "file:/lab/C",
          "complete": false,
          "stopped": [
            {
              "reason": "depth",
              "level": 1,
              "vertices_left": 2,
              "vertices": [
                "file:/lab/A",
                "file:/lab/B"
              ]
            }
          ],
          "vertices": [
            {
              "id": "file:/lab/C",
              "type": "File",
              "version": "1970-01-01T00:00:25.000Z",
              "attributes": {}
            },
            {
              "id": "job:2",
              "type": "Job",
              "version": "1970-01-01T00:00:18.000Z",
              "attributes": {
                "command": "./app_readAB_writeC",
                "end": "1970-01-01T00:00:30Z",
                "nprocs": 4,
                "start": "1970-01-01T00:00:18Z"
              }
            },
            {
              "id": "file:/lab/A",
              "type": "File",
              "version": "1970-01-01T00:00:40.000Z",
              "deleted": true,
              "attributes": {}
            },
            {
              "id": "file:/lab/B",
              "type": "File",
              "version": "1970-01-01T00:00:12.000Z",
              "attributes": {}
            },
            {
              "id": "user:alice",
              "type": "User",
              "version": "1970-01-01T00:00:18.000Z",
              "attributes": {}
            },
            {
              "id": "executable:/bin/app",
              "type": "Executable",
              "version": "1970-01-01T00:00:18.000Z",
              "attributes": {}
            }
          ],
          "edges": [
            {
              "src": "file:/lab/C",
              "type": "wasWrittenBy",
              "dst": "job:2",
              "version": "1970-01-01T00:00:25.000Z",
              "properties": {
                "bytes": 8192,
                "end": "1970-01-01T00:00:25Z",
                "start": "1970-01-01T00:00:22Z"
              }
            },
            {
              "src": "job:2",
              "type": "read",
              "dst": "file:/lab/A",
              "version": "1970-01-01T00:00:21.000Z",
              "properties": {
                "bytes": 4096,
                "end": "1970-01-01T00:00:21Z",
                "start": "1970-01-01T00:00:20Z"
              }
            },
            {
              "src": "job:2",
              "type": "read",
              "dst": "file:/lab/B",
              "version": "1970-01-01T00:00:21.000Z",
              "properties": {
                "bytes": 100,
                "end": "1970-01-01T00:00:21Z",
                "start": "1970-01-01T00:00:20Z"
              }
            },
            {
              "src": "job:2",
              "type": "wasRunBy",
              "dst": "user:alice",
              "version": "1970-01-01T00:00:18.000Z",
              "properties": {}
            },
            {
              "src": "job:2",
              "type": "exe",
              "dst": "executable:/bin/app",
              "version": "1970-01-01T00:00:18.000Z",
              "properties": {}
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&parsed).unwrap());
}

#[test]
fn dot_is_quoted() {
    let mut g = Recorded::new();
    g.job("job:a\"b\\", &[], &["file:x\ny"], 10);
    let found = lineage(
        &g,
        g.id("file:x\ny"),
        &LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap();
    expect![[r#"
        digraph provenance {
          rankdir=LR;
          node [fontname="sans-serif"];
          n0 [label="file:x\\ny\n1970-01-01T00:00:11.000Z", shape=note, style=bold];
          n1 [label="job:a\"b\\", shape=ellipse];
          n0 -> n1 [label="wasWrittenBy"];
        }
    "#]]
    .assert_eq(&render_dot(&found, &Schema::default()));
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut g = Recorded::new();
    g.job("job:1", &[], &["file:\u{1b}[2J\u{202e}evil\r\n"], 10);
    let target = g.id("file:\u{1b}[2J\u{202e}evil\r\n");
    let found = lineage(&g, target, &LineageOptions::default(), &NeverCancel).unwrap();
    let tree = render_tree(&found, &Schema::default(), &TreeStyle::default());
    assert!(!tree.contains('\u{1b}') && !tree.contains('\u{202e}') && !tree.contains('\r'));
    assert_eq!(
        tree.lines().next().unwrap().split("  ").next().unwrap(),
        "file:\\u{1b}[2J\\u{202e}evil\\r\\n"
    );
}

#[test]
fn an_execution_met_again_shows_only_what_is_new() {
    let mut g = Recorded::new();
    g.link("job:j", "read", "file:in1", at(10), lasting(5, 10));
    g.link("job:j", "write", "file:out1", at(15), lasting(11, 15));
    g.link("job:j", "read", "file:in2", at(20), lasting(16, 20));
    g.link("job:j", "write", "file:out2", at(25), lasting(21, 25));
    g.link("job:end", "read", "file:out1", at(40), lasting(38, 40));
    g.link("job:end", "read", "file:out2", at(40), lasting(39, 40));
    g.link("job:end", "write", "file:end", at(45), lasting(41, 45));
    let found = lineage(
        &g,
        g.id("file:end"),
        &LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap();
    expect![[r#"
        file:end  version 1970-01-01T00:00:45.000Z
        └─ written by job:end
           ├─ read file:out1  version 1970-01-01T00:00:15.000Z
           │  └─ written by job:j
           │     └─ read file:in1
           └─ read file:out2  version 1970-01-01T00:00:25.000Z
              └─ written by job:j  ↑ above
                 └─ read file:in2

        2 executions, 5 data objects; complete
    "#]]
    .assert_eq(&render_tree(
        &found,
        &Schema::default(),
        &TreeStyle::default(),
    ));
}

#[test]
fn values_in_json() {
    let text = |v: Value| {
        let mut out = String::new();
        write_json_value(&mut out, &v);
        let _: serde_json::Value = serde_json::from_str(&out).unwrap();
        out
    };
    assert_eq!(text(Value::I64(i64::MIN)), "-9223372036854775808");
    assert_eq!(text(Value::F64(1.0)), "1.0");
    assert_eq!(text(Value::F64(1e300)), "1e300");
    assert_eq!(text(Value::F64(f64::NAN)), "\"NaN\"");
    assert_eq!(text(Value::F64(f64::NEG_INFINITY)), "\"-inf\"");
    assert_eq!(
        text(Value::Timestamp(1_500_000_000)),
        "\"1970-01-01T00:00:01.5Z\""
    );
    for (bytes, expected) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(text(Value::Bytes(bytes.into())), format!("\"{expected}\""));
    }
    assert_eq!(
        text(Value::List(vec![
            Value::Null,
            true.into(),
            "a\"\u{7f}".into()
        ])),
        "[null,true,\"a\\\"\\u007f\"]"
    );
}

#[test]
fn any_string_survives_json() {
    for code in 0..0x2100_u32 {
        let Some(c) = char::from_u32(code) else {
            continue;
        };
        let mut out = String::new();
        write_json_string(&mut out, &c.to_string());
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), c.to_string());
    }
}
