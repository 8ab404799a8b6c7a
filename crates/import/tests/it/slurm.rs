//! Slurm accounting, from the plug-in and from `sacct` of several releases.

use esker_import::slurm::{JobTypes, Sacct, SlurmJob, batch, document, listing};
use esker_model::{Batch, Op, Properties, Schema, Value, VertexId};
use jiff::tz::TimeZone;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
/// 2026-03-01T12:00:00Z.
const NOON: i64 = 1_772_366_400 * SECOND;

const DOCUMENT: &str = r##"{"jobid":77,"container":null,"username":"ada","user_id":1000,"groupname":"lab","group_id":100,
 "@start":"2026-03-01T12:00:00","@end":"2026-03-01T12:00:30","elapsed":30,"partition":"all","alloc_node":"n1","nodes":"n[1-2]",
 "total_cpus":4,"total_nodes":2,"derived_ec":"0:0","exit_code":"3:0","state":"FAILED","failed_node":null,"cpu_hours":0.033333335071802139,
 "array_job_id":70,"array_task_id":7,"@submit":"2026-03-01T11:59:00","@eligible":"2026-03-01T11:59:00","@queue_wait":60,
 "work_dir":"\/home\/ada","std_err":"\/home\/ada\/slurm-70_7.out","ntasks":2,"cpus_per_task":1,"time_limit":3600,"job_name":"wrf",
 "account":"climate","script":"#!\/bin\/bash\nexport API_TOKEN=abc123\nsrun .\/wrf.exe\n","parent_accounts":"\/root\/climate",
 "field_of_tomorrow":{"a":[1,2]},"Odd Name!":1.5}"##;

fn attributes(batch: &Batch, vertex: VertexId) -> Properties {
    let mut all = Properties::new();
    for mutation in &batch.mutations {
        match &mutation.op {
            Op::ChangeVertex { vertex: v, set, .. } | Op::SetAttributes { vertex: v, set, .. }
                if v.id == vertex =>
            {
                for (name, value) in set.iter() {
                    all.set(name, value.clone());
                }
            }
            _ => {}
        }
    }
    all
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn edges(batch: &Batch) -> Vec<(VertexId, VertexId)> {
    batch
        .mutations
        .iter()
        .filter_map(|m| match &m.op {
            Op::PutEdge {
                source,
                destination,
                ..
            } => Some((source.id, destination.id)),
            _ => None,
        })
        .collect()
}

fn types() -> JobTypes {
    JobTypes::resolve(&Schema::default()).unwrap()
}

#[test]
fn a_document_becomes_a_job_with_all_its_fields() {
    let job = document(DOCUMENT.as_bytes()).unwrap();
    assert_eq!((job.start, job.end), (Some(NOON), Some(NOON + 30 * SECOND)));
    let batch = batch(&job, &types(), None);
    let vertex = VertexId::of("Job", "77");
    let all = attributes(&batch, vertex);
    let text = |name: &str| all.get(name).and_then(text_of);
    assert_eq!(text("state").as_deref(), Some("FAILED"));
    assert_eq!(text("exit_code").as_deref(), Some("3:0"));
    assert_eq!(text("name").as_deref(), Some("wrf"));
    assert_eq!(text("host").as_deref(), Some("n[1-2]"));
    assert_eq!(text("account").as_deref(), Some("climate"));
    assert_eq!(text("field_of_tomorrow").as_deref(), Some(r#"{"a":[1,2]}"#));
    assert_eq!(all.get("odd_name_"), Some(&Value::F64(1.5)));
    assert_eq!(all.get("queue_wait"), Some(&Value::I64(60)));
    assert_eq!(
        all.get("submit"),
        Some(&Value::Timestamp(NOON - 60 * SECOND))
    );
    assert_eq!(all.get("nprocs"), Some(&Value::I64(2)));
    assert_eq!(all.get("container"), None, "what says nothing is not kept");
    let script = text("script").unwrap();
    assert!(script.contains("API_TOKEN=[redacted]") && script.contains("srun ./wrf.exe"));
    let user = VertexId::of("User", "1000");
    let array = VertexId::of("Job", "70");
    assert_eq!(edges(&batch), [(user, vertex), (vertex, array)]);
    // The job is running until its end.
    let ends: Vec<_> = batch.mutations.iter().filter_map(|m| m.version).collect();
    assert!(ends.iter().any(|v| v.millis() == 1_772_366_400_000));
    assert!(ends.iter().any(|v| v.millis() == 1_772_366_430_000));
}

#[test]
fn a_job_that_never_began_is_known_from_its_submission() {
    let text = r#"{"jobid":5,"@submit":"2026-03-01T12:00:00","@start":"Unknown","@end":"2026-03-01T12:00:09","state":"CANCELLED","nodes":"(null)"}"#;
    let job = document(text.as_bytes()).unwrap();
    assert_eq!((job.start, job.nodes.as_deref()), (None, None));
    let batch = batch(&job, &types(), Some("frontier"));
    let all = attributes(&batch, VertexId::of("Job", "frontier/5"));
    assert_eq!(all.get("end"), Some(&Value::Timestamp(NOON + 9 * SECOND)));
    assert_eq!(all.get("start"), None);
    assert_eq!(
        batch.mutations[0].version.unwrap().millis(),
        1_772_366_400_000
    );
}

#[test]
fn what_is_no_document_is_told_where() {
    for (text, said) in [
        ("{\"jobid\":", "line 1, column 9"),
        ("[1]", "expected a JSON object of one job"),
        ("{\"username\":\"x\"}", "there is no `jobid`"),
        ("{\"jobid\":\"../x\"}", "`jobid`: expected a job's number"),
        (
            "{\"jobid\":1,\"@start\":\"yesterday\"}",
            "`@start`: expected a time",
        ),
    ] {
        let error = document(text.as_bytes()).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

fn table(text: &str) -> Vec<Result<SlurmJob, String>> {
    let sacct = Sacct::new(text.as_bytes(), "jobs.txt", TimeZone::UTC).unwrap();
    sacct.map(|job| job.map_err(|e| e.to_string())).collect()
}

#[test]
fn a_table_of_sacct_has_jobs_with_their_steps() {
    let jobs = table(
        "JobID|JobIDRaw|JobName|User|UID|State|ExitCode|Submit|Start|End|NodeList|AllocTRES|Tomorrow\n\
         70_7|77|wrf|ada|1000|COMPLETED|0:0|2026-03-01T11:59:00|2026-03-01T12:00:00|2026-03-01T12:00:30|n1|cpu=2|x\n\
         70_7.batch|77.batch|batch|||COMPLETED|0:0|2026-03-01T12:00:00|2026-03-01T12:00:00|2026-03-01T12:00:30|n1|cpu=2|\n\
         70_7.0|77.0|wrf.exe|||FAILED|9:0|2026-03-01T12:00:01|2026-03-01T12:00:01|2026-03-01T12:00:29|n1|cpu=2|\n\
         70_[8-9]|70|wrf|ada|1000|PENDING|0:0|2026-03-01T11:59:00|Unknown|Unknown|None assigned||\n\
         79|79|two|names|bob|1001|COMPLETED|0:0|2026-03-01T11:59:00|Unknown|2026-03-01T12:00:00|n1||\n\
         78|78|x|bob|1001|CANCELLED by 1000|0:15|2026-03-01T11:59:00|Unknown|2026-03-01T12:00:00|None assigned||\n",
    );
    assert_eq!(jobs.len(), 4, "{jobs:?}");
    let first = jobs[0].as_ref().unwrap();
    assert_eq!(
        (first.id.as_str(), first.part_of.as_deref()),
        ("77", Some("70"))
    );
    assert_eq!(
        first.fields.get("tomorrow"),
        Some(&Value::String("x".into()))
    );
    assert_eq!(
        first.fields.get("exit_code"),
        Some(&Value::String("0:0".into()))
    );
    let steps: Vec<_> = first.steps.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(steps, ["77.batch", "77.0"]);
    let batch = batch(first, &types(), None);
    let step = VertexId::of("Process", "slurm/77.0");
    assert_eq!(
        attributes(&batch, step).get("state"),
        Some(&Value::String("FAILED".into()))
    );
    assert!(edges(&batch).contains(&(step, VertexId::of("Job", "77"))));
    assert_eq!(jobs.iter().filter(|j| j.is_err()).count(), 1);
    let bad = jobs.iter().find_map(|j| j.as_ref().err()).unwrap();
    assert!(
        bad.contains("line 6: 14 cells, and the heading has 13"),
        "{bad}"
    );
    let last = jobs.last().unwrap().as_ref().unwrap();
    assert_eq!(
        last.fields.get("state"),
        Some(&Value::String("CANCELLED".into()))
    );
    assert_eq!(last.fields.get("cancelled_by"), Some(&Value::I64(1000)));
    assert_eq!((last.start, last.end), (None, Some(NOON)));
}

#[test]
fn times_of_a_table_are_of_a_zone() {
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let text = "JobIDRaw|Start|End\n9|2026-03-01T14:00:00|1772366401\n";
    let job = Sacct::new(text.as_bytes(), "-", zone)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!((job.start, job.end), (Some(NOON), Some(NOON + SECOND)));
}

#[test]
fn what_is_no_table_is_told() {
    let error = Sacct::new("Name|State\n".as_bytes(), "f", TimeZone::UTC)
        .err()
        .unwrap();
    assert!(
        error.fatal
            && error
                .to_string()
                .starts_with("f, line 1: expected the heading")
    );
    let jobs = table("JobID|Start\n70_7|2026-03-01T12:00:00\n71.0|x\n72|not a time\n");
    let said: Vec<String> = jobs.into_iter().map(|j| j.unwrap_err()).collect();
    assert!(said[0].contains("print the column JobIDRaw"), "{said:?}");
    assert!(
        said[1].contains("column start") || said[1].contains("does not follow"),
        "{said:?}"
    );
    assert!(
        said[2].contains("line 4: column start: expected a time"),
        "{said:?}"
    );
}

/// One job as printed by the data parsers of Slurm 22.05, 23.02 and 24.05.
#[test]
fn listings_of_several_releases_are_the_same_job() {
    let told = [
        r#"{"jobs":[{"job_id":77,"array":{"job_id":70,"task_id":7},"association":{"user":"ada","account":"climate","cluster":"c"},"user":"ada","name":"wrf",
          "time":{"submission":1772366340,"eligible":1772366340,"start":1772366400,"end":1772366430,"elapsed":30,"limit":60},"nodes":"n1",
          "exit_code":{"status":"ERROR","return_code":3},"state":{"current":"FAILED","reason":"NonZeroExitCode"},"partition":"all",
          "steps":[{"step":{"id":{"job_id":77,"step_id":0},"name":"wrf.exe"},"time":{"start":1772366401,"end":1772366429},"state":"FAILED"}]}]}"#,
        r#"{"meta":{},"jobs":[{"job_id":77,"array":{"job_id":70,"task_id":{"set":true,"infinite":false,"number":7}},"association":{"user":"ada","account":"climate","cluster":"c"},
          "user":"ada","name":"wrf","time":{"submission":1772366340,"eligible":1772366340,"start":1772366400,"end":1772366430,"elapsed":30,
          "limit":{"set":true,"infinite":false,"number":60}},"nodes":"n1","exit_code":{"status":["ERROR"],"return_code":{"set":true,"infinite":false,"number":3},"signal":{"id":{"set":false,"number":0},"name":""}},
          "state":{"current":["FAILED"],"reason":"NonZeroExitCode"},"partition":"all",
          "steps":[{"step":{"id":"77.0","name":"wrf.exe"},"time":{"start":{"set":true,"number":1772366401},"end":{"set":true,"number":1772366429}},"state":["FAILED"]}]}]}"#,
    ];
    let jobs: Vec<SlurmJob> = told
        .map(|text| listing(text.as_bytes()).unwrap().remove(0).unwrap())
        .into();
    assert_eq!(jobs[0], jobs[1]);
    let job = &jobs[0];
    assert_eq!(
        (job.id.as_str(), job.part_of.as_deref()),
        ("77", Some("70"))
    );
    for (name, value) in [
        ("state", "FAILED"),
        ("exit_code", "3:0"),
        ("account", "climate"),
        ("partition", "all"),
    ] {
        assert_eq!(
            job.fields.get(name),
            Some(&Value::String(value.into())),
            "{name}"
        );
    }
    assert_eq!(job.fields.get("time_limit"), Some(&Value::I64(3600)));
    assert_eq!(job.fields.get("array_task_id"), Some(&Value::I64(7)));
    assert_eq!(job.steps[0].id, "77.0");
    let broken = listing(br#"{"jobs":[{"job_id":1},{"name":"x"},7]}"#).unwrap();
    assert!(broken[0].is_ok());
    assert!(
        broken[1]
            .as_ref()
            .unwrap_err()
            .starts_with("`jobs[1]`: there is no `job_id`")
    );
    assert!(listing(b"{}").unwrap_err().contains("there are no `jobs`"));
}

#[test]
fn a_script_that_is_too_long_is_cut_and_says_so() {
    let text = format!(r#"{{"jobid":1,"script":"{}"}}"#, "é".repeat(700_000));
    let job = document(text.as_bytes()).unwrap();
    let script = job.fields.get("script").and_then(text_of).unwrap();
    assert!(script.ends_with("[cut: it had 1400000 bytes]") && script.len() <= 1 << 20);
}

proptest! {
    /// Any input gives a result; and a document that is read makes a batch within the limits.
    #[test]
    fn nothing_makes_readers_panic(text in "\\PC{0,200}", cut in 0..DOCUMENT.len(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = document(text.as_bytes());
        let _ = document(&bytes);
        let _ = listing(&bytes);
        let _ = listing(text.as_bytes());
        if let Some(part) = DOCUMENT.get(..cut) {
            prop_assert!(document(part.as_bytes()).is_err());
        }
        let head = b"JobID|JobIDRaw|Start|State\n".iter().chain(&bytes).copied().collect::<Vec<_>>();
        if let Ok(sacct) = Sacct::new(&head[..], "f", TimeZone::UTC) {
            for job in sacct.flatten() {
                let _ = batch(&job, &types(), None);
            }
        }
    }

    /// Unknown fields are kept.
    #[test]
    fn unknown_fields_are_kept(name in "[a-z][a-z_]{2,20}", value in any::<i64>()) {
        prop_assume!(!DOCUMENT.contains(&format!("\"{name}\"")));
        prop_assume!(!["job_name", "nodes", "ntasks", "user_id", "jobid", "script"].contains(&name.as_str()));
        let job = document(format!(r#"{{"jobid":1,"{name}":{value}}}"#).as_bytes()).unwrap();
        prop_assert_eq!(job.fields.get(&name), Some(&Value::I64(value)));
    }
}
