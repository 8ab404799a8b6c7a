//! Comparison of two runs.

use super::view::{FileState, Files, View};
use super::{Change, Part, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of words for alignment; longer lists are compared by index.
const WORDS_MAX: usize = 1_000;
/// Variables that differ between any two runs.
const OWN: [&str; 20] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_TASK_PID",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_SRUN_COMM_HOST",
    "SLURM_STEP_LAUNCHER_PORT",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_TOPOLOGY_ADDR",
    "PMI_FD",
    "PMI_RANK",
    "PMI_PORT",
    "PMI_ID",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_initial_wdir",
];

/// Returns the rows of both runs.
pub(super) fn rows(before: &View, after: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    let keys: BTreeSet<_> = before.values.keys().chain(after.values.keys()).collect();
    for key in keys {
        let values_of = |view: &View| {
            let values = view.values.get(key)?;
            Some(values.iter().cloned().collect::<Vec<_>>().join(", "))
        };
        let (part, name) = key;
        rows.push(row(
            *part,
            name.clone(),
            values_of(before),
            values_of(after),
        ));
    }
    sequence(
        (Part::Argument, ""),
        [&before.arguments, &after.arguments],
        &mut rows,
    );
    sequence(
        (Part::Script, "line "),
        [&before.script, &after.script],
        &mut rows,
    );
    files(Part::Input, &before.inputs, &after.inputs, &mut rows);
    files(Part::Output, &before.outputs, &after.outputs, &mut rows);
    // Words stay in their order.
    let name = |row: &Row| match row.part {
        Part::Argument | Part::Script => String::new(),
        _ => row.name.clone(),
    };
    rows.sort_by_cached_key(|row| (row.part, name(row)));
    rows
}

fn row(part: Part, name: String, before: Option<String>, after: Option<String>) -> Row {
    let expected = match part {
        Part::Environment => OWN.contains(&name.as_str()),
        Part::Location => matches!(name.as_str(), "job" | "jobid" | "pid" | "slurm_step"),
        Part::Time => name != "seconds",
        // Times reported by Slurm: `@submit`, `@queue_wait`.
        Part::Tag => name.starts_with("trace_") || name.starts_with('@'),
        _ => false,
    };
    let change = match (&before, &after) {
        (Some(b), Some(a)) if b == a => Change::Same,
        (Some(_), Some(_)) if part == Part::Program && name.starts_with('/') => {
            Change::OtherVersion
        }
        (Some(_), Some(_)) => Change::Changed,
        (Some(_), None) => Change::Removed,
        (None, _) => Change::Added,
    };
    Row {
        part,
        name,
        change,
        before,
        after,
        expected,
    }
}

/// Aligns words or lines by their longest common subsequence.
fn sequence(
    (part, of): (Part, &str),
    [before, after]: [&Option<Vec<String>>; 2],
    rows: &mut Vec<Row>,
) {
    let none = Vec::new();
    let b = before.as_ref().unwrap_or(&none);
    let a = after.as_ref().unwrap_or(&none);
    let same = common(b, a);
    let mut ends = same.clone();
    ends.push((b.len(), a.len()));
    let (mut at_b, mut at_a) = (0, 0);
    for (end_b, end_a) in ends {
        // Words between two common ones differ.
        let (own_b, own_a) = (end_b - at_b, end_a - at_a);
        for n in 0..own_b.max(own_a) {
            let word = |words_of: &[String], at: usize, own: usize| {
                (n < own).then(|| words_of.get(at + n).cloned()).flatten()
            };
            let place = if n < own_a { at_a + n } else { at_b + n };
            let name = format!("{of}{}", place + 1);
            let mut made = row(part, name, word(b, at_b, own_b), word(a, at_a, own_a));
            made.expected = false;
            rows.push(made);
        }
        (at_b, at_a) = (end_b + 1, end_a + 1);
    }
    for (at, _) in same {
        let word = b.get(at).cloned();
        rows.push(row(part, format!("{of}{}", at + 1), word.clone(), word));
    }
}

/// Returns the longest common subsequence of two lists, as pairs of indexes.
fn common(b: &[String], a: &[String]) -> Vec<(usize, usize)> {
    if b.len() > WORDS_MAX || a.len() > WORDS_MAX {
        let both = b.iter().zip(a).enumerate();
        return both
            .filter(|(_, (b, a))| b == a)
            .map(|(n, _)| (n, n))
            .collect();
    }
    let width = a.len() + 1;
    // Length of the common subsequence of the suffixes.
    let mut behind = vec![0_u16; width * (b.len() + 1)];
    let get = |behind: &[u16], i: usize, j: usize| behind.get(i * width + j).copied().unwrap_or(0);
    for (i, word) in b.iter().enumerate().rev() {
        for (j, other) in a.iter().enumerate().rev() {
            let most = if word == other {
                get(&behind, i + 1, j + 1) + 1
            } else {
                get(&behind, i + 1, j).max(get(&behind, i, j + 1))
            };
            if let Some(place) = behind.get_mut(i * width + j) {
                *place = most;
            }
        }
    }
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while let (Some(word), Some(other)) = (b.get(i), a.get(j)) {
        if word == other {
            out.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if get(&behind, i + 1, j) >= get(&behind, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn files(part: Part, before: &Files, after: &Files, rows: &mut Vec<Row>) {
    let mut gone: BTreeMap<&str, Vec<(&String, &FileState)>> = BTreeMap::new();
    for (path, state) in before {
        match after.get(path) {
            Some(now) => rows.push(same_path(part, path, state, now)),
            None => gone.entry(short(path)).or_default().push((path, state)),
        }
    }
    for (path, state) in after.iter().filter(|(path, _)| !before.contains_key(*path)) {
        let described = |path: &str, state: &FileState| match state.describe() {
            text if text.is_empty() => path.to_owned(),
            text => format!("{path} ({text})"),
        };
        // A file of the same name was used instead.
        let partner = gone.get_mut(short(path)).and_then(Vec::pop);
        rows.push(match partner {
            Some((old, was)) => Row {
                part,
                name: short(path).to_owned(),
                change: Change::OtherFile,
                before: Some(described(old, was)),
                after: Some(described(path, state)),
                expected: false,
            },
            None => row(part, path.clone(), None, Some(state.describe())),
        });
    }
    for (path, state) in gone.into_values().flatten() {
        rows.push(row(part, path.clone(), Some(state.describe()), None));
    }
}

fn same_path(part: Part, path: &str, before: &FileState, after: &FileState) -> Row {
    let sizes = before.size.is_some() && after.size.is_some();
    let times = before.mtime.is_some() && after.mtime.is_some();
    // An unknown value is not a difference.
    let other = (sizes && before.size != after.size)
        || (times && before.mtime != after.mtime)
        || (!times && before.writer.is_some() && before.writer != after.writer)
        || (!times && after.writer.is_some() && before.writer != after.writer);
    Row {
        part,
        name: path.to_owned(),
        change: if other {
            Change::OtherVersion
        } else {
            Change::Same
        },
        before: Some(before.describe()),
        after: Some(after.describe()),
        // Each run writes its outputs anew: only the size is informative.
        expected: part == Part::Output && sizes && before.size == after.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn differences(before: &str, after: &str) -> Vec<String> {
        let view = |text| View {
            arguments: Some(words_of(text)),
            ..View::default()
        };
        rows(&view(before), &view(after))
            .iter()
            .filter(|row| row.change != Change::Same)
            .map(|r| format!("{:?} {:?} {:?}", r.change, r.before, r.after))
            .collect()
    }

    #[test]
    fn arguments_that_moved_are_not_told() {
        assert!(differences("-n 3 in.nc", "-n 3 in.nc").is_empty());
        assert_eq!(
            differences("-n 3 in.nc", "-n 4 in.nc"),
            ["Changed Some(\"3\") Some(\"4\")"]
        );
        assert_eq!(
            differences("in.nc", "-v in.nc"),
            ["Added None Some(\"-v\")"]
        );
        assert_eq!(
            differences("-v in.nc x", "in.nc"),
            ["Removed Some(\"-v\") None", "Removed Some(\"x\") None"]
        );
    }

    #[test]
    fn of_a_script_the_lines_that_differ_are_told() {
        let view = |text: &str| View {
            script: Some(text.lines().map(str::to_owned).collect()),
            ..View::default()
        };
        let (before, after) = (
            view("#!/bin/sh\n#SBATCH -n 4\nsrun ./x"),
            view("#!/bin/sh\n#SBATCH -n 8\nmodule load hdf5\nsrun ./x"),
        );
        let rows = rows(&before, &after);
        let differ = rows.iter().filter(|r| r.change != Change::Same);
        let differ: Vec<_> = differ
            .map(|r| (r.part, r.name.as_str(), r.change))
            .collect();
        assert_eq!(
            differ,
            [
                (Part::Script, "line 2", Change::Changed),
                (Part::Script, "line 3", Change::Added)
            ]
        );
    }

    #[test]
    fn files_are_the_same_another_version_or_another_file() {
        let state = |size| FileState {
            size: Some(size),
            ..FileState::default()
        };
        let files_of = |all: &[(&str, i64)]| -> Files {
            all.iter()
                .map(|(p, s)| ((*p).to_owned(), state(*s)))
                .collect()
        };
        let view = |all| View {
            inputs: files_of(all),
            ..View::default()
        };
        let before = view(&[
            ("/a/x.nc", 1),
            ("/a/y.nc", 1),
            ("/a/z.nc", 1),
            ("/a/old", 1),
        ]);
        let after = view(&[
            ("/a/x.nc", 1),
            ("/a/y.nc", 2),
            ("/b/z.nc", 1),
            ("/a/new", 1),
        ]);
        let mut changes: Vec<_> = rows(&before, &after)
            .iter()
            .map(|r| (r.name.clone(), r.change))
            .collect();
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        let named = |name: &str, change| (name.to_owned(), change);
        assert_eq!(
            changes,
            [
                named("/a/new", Change::Added),
                named("/a/old", Change::Removed),
                named("/a/x.nc", Change::Same),
                named("/a/y.nc", Change::OtherVersion),
                named("z.nc", Change::OtherFile),
            ]
        );
    }
}
