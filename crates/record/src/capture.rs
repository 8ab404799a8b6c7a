//! Captures the description of a run at its start: from this process, its environment and its arguments.

use crate::run::{Run, Slurm, Use, new_id};
use esker_import::secrets::Redactor;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Prefixes of variables that affect how a program runs. All others are private.
const KEPT: [&str; 40] = [
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "MPI",
    "OMPI_MCA_",
    "PMI_",
    "I_MPI_",
    "UCX_",
    "FI_",
    "NCCL_",
    "CUDA_",
    "ROCR_",
    "HIP_",
    "HDF5_",
    "NETCDF",
    "PNETCDF",
    "ROMIO_",
    "DARSHAN_",
    "SLURM_",
    "PBS_",
    "LSB_",
    "COBALT_",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "LOADEDMODULES",
    "LMOD_",
    "SPACK_ENV",
    "EASYBUILD",
    "SINGULARITY_",
    "APPTAINER_",
    "TZ",
];
/// Variable with the id of the current run; child runs read it as their parent.
pub const OWN_ID: &str = "ESKER_RUN";
/// Maximum length of a value in bytes; longer ones are truncated.
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Maximum number of variables that are kept.
const VARIABLES_MAX: usize = 500;

/// Inputs for the description of a run.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// Database of the run.
    pub target: String,
    /// Name of the run; the program's name by default.
    pub name: Option<String>,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Names of further variables to keep.
    pub variables: Vec<String>,
    /// Redactor of secrets in kept values.
    pub redactor: Redactor,
}

/// Describes a run at its start. `environment` has the variables of the run.
pub fn begin(what: Begin, environment: &[(String, String)], start: i64) -> Run {
    let Begin {
        target,
        name,
        command,
        variables,
        redactor,
    } = what;
    let host = host_name();
    let pid = std::process::id();
    let variable = |name: &str| {
        let found = environment.iter().find(|(n, _)| n == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|v| !v.is_empty())
    };
    let cwd = std::env::current_dir().unwrap_or_default();
    let program = command.first().map(String::as_str).unwrap_or_default();
    let found = resolved(program, variable("PATH").as_deref(), &cwd);
    let short = Path::new(program).file_name().map(OsStr::to_string_lossy);
    let uid = rustix::process::getuid().as_raw();
    Run {
        id: new_id(start, &host, pid, uid),
        target,
        name: name.unwrap_or_else(|| short.unwrap_or_default().into_owned()),
        programs: found.iter().map(|p| Use::of(p)).collect(),
        program: found.map(|p| p.to_string_lossy().into_owned()),
        command: redactor.command_words(&command),
        cwd: cwd.to_string_lossy().into_owned(),
        host,
        uid,
        user: variable("USER").or_else(|| variable("LOGNAME")),
        pid,
        pid_began: crate::spool::began(pid),
        start,
        environment: kept_variables(environment, &variables, &redactor),
        modules: modules(&variable),
        parent: variable(OWN_ID),
        slurm: slurm(&variable),
        ..Run::default()
    }
}

/// Returns settings for recording: of those with a secret's name, the value is redacted.
pub fn settings(
    given: impl IntoIterator<Item = (String, String)>,
    redactor: &Redactor,
) -> BTreeMap<String, String> {
    let kept = given.into_iter().map(|(name, value)| {
        let value = truncated(redactor.named(&name, &value));
        (name, value)
    });
    kept.collect()
}

/// Returns the host name of this machine.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

fn truncated(mut value: String) -> String {
    if value.len() > VALUE_BYTES_MAX {
        value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
        value.push_str("[cut]");
    }
    value
}

fn kept_variables(
    environment: &[(String, String)],
    more: &[String],
    redactor: &Redactor,
) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (name, value) in environment {
        let wanted = more.contains(name) || KEPT.iter().any(|prefix| name.starts_with(prefix));
        if !wanted || out.len() == VARIABLES_MAX {
            continue;
        }
        out.insert(name.clone(), truncated(redactor.named(name, value)));
    }
    out
}

/// Returns the loaded modules according to Lmod, Environment Modules and Spack.
pub fn modules(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut modules: Vec<String> = variable("LOADEDMODULES")
        .unwrap_or_default()
        .split(':')
        .filter(|module| !module.is_empty())
        .map(str::to_owned)
        .collect();
    let spack = variable("SPACK_LOADED_HASHES").unwrap_or_default();
    let spack = spack.split(':').filter(|hash| !hash.is_empty());
    modules.extend(spack.map(|hash| format!("spack:/{hash}")));
    modules.extend(variable("SPACK_ENV").map(|env| format!("spack-env:{env}")));
    modules
}

fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Option<Slurm> {
    Some(Slurm {
        job: variable("SLURM_JOB_ID").or_else(|| variable("SLURM_JOBID"))?,
        step: variable("SLURM_STEP_ID"),
        array: variable("SLURM_ARRAY_JOB_ID"),
        task: variable("SLURM_ARRAY_TASK_ID"),
        rank: variable("SLURM_PROCID"),
        cluster: variable("SLURM_CLUSTER_NAME"),
    })
}

/// Resolves a program's name to its file.
pub fn resolved(program: &str, path: Option<&str>, cwd: &Path) -> Option<PathBuf> {
    let there = |file: PathBuf| file.is_file().then(|| file.canonicalize().unwrap_or(file));
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        return there(cwd.join(program));
    }
    let folders = path.unwrap_or("/usr/bin:/bin").split(':');
    folders
        .filter(|folder| !folder.is_empty())
        .find_map(|folder| there(cwd.join(folder).join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_import::secrets::MARK;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pair = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn settings_that_are_secrets_are_kept_without_their_values() {
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let kept = settings(
            [
                pair("k", "3"),
                pair("api_token", "abc"),
                pair("url", "x?password=y"),
                pair("who", "patient-7"),
            ],
            &Redactor::new(["patient-[0-9]+"]).unwrap(),
        );
        assert_eq!(kept["who"], MARK);
        assert_eq!(kept["k"], "3");
        assert_eq!(kept["api_token"], MARK);
        assert!(!kept["url"].contains('y'), "{kept:?}");
    }

    #[test]
    fn what_says_how_a_program_runs_is_kept_and_no_secret() {
        let run = begin(
            Begin {
                target: "lab.esker".into(),
                command: ["sh", "--token", "abc", "-c", "x --password=y"]
                    .map(str::to_owned)
                    .into(),
                variables: vec!["CASE".into()],
                ..Begin::default()
            },
            &environment(&[
                ("OMP_NUM_THREADS", "8"),
                ("PATH", "/usr/bin:/bin"),
                ("CASE", "winter"),
                ("SLURM_JWT_TOKEN", "eyJ"),
                ("AWS_SECRET_ACCESS_KEY", "abc"),
                ("HOME", "/home/ada"),
                ("LOADEDMODULES", "gcc/13:hdf5/1.14"),
                ("SLURM_JOB_ID", "77"),
                ("SLURM_ARRAY_TASK_ID", "3"),
                ("ESKER_RUN", "0outer"),
                ("USER", "ada"),
            ]),
            1,
        );
        assert_eq!(
            run.command,
            [
                "sh",
                "--token",
                "[redacted]",
                "-c",
                "x --password=[redacted]"
            ]
        );
        let names: Vec<&str> = run.environment.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "CASE",
                "LOADEDMODULES",
                "OMP_NUM_THREADS",
                "PATH",
                "SLURM_ARRAY_TASK_ID",
                "SLURM_JOB_ID",
                "SLURM_JWT_TOKEN"
            ]
        );
        assert_eq!(run.environment["SLURM_JWT_TOKEN"], MARK);
        assert_eq!(run.modules, ["gcc/13", "hdf5/1.14"]);
        assert_eq!(run.slurm.unwrap().task.as_deref(), Some("3"));
        assert_eq!(run.parent.as_deref(), Some("0outer"));
        assert_eq!(
            (run.name.as_str(), run.user.as_deref()),
            ("sh", Some("ada"))
        );
        assert!(run.program.unwrap().starts_with('/'));
    }
}
