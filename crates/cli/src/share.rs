//! A client's share of a collective search.

use esker_model::object::Share;
use esker_terminal::exit::usage;

/// Environment variables with rank and number of processes by launcher, in the order of their use.
const LAUNCHERS: [(&str, &str); 5] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Parses a share, `RANK/OF`.
pub(crate) fn parse_share(text: &str) -> Result<Share, String> {
    let bad =
        || format!("`{text}` is not a share: expected RANK/OF with RANK from 0, as in 0/4 to 3/4");
    let (rank, of) = text.split_once('/').ok_or_else(bad)?;
    let rank = rank.trim().parse().map_err(|_| bad())?;
    let of = of.trim().parse().map_err(|_| bad())?;
    if rank >= of {
        return Err(bad());
    }
    Ok(Share { rank, of })
}

/// Returns the share of this process from its launcher's environment variables.
pub(crate) fn of_launcher(get: impl Fn(&str) -> Option<String>) -> anyhow::Result<Share> {
    for (rank, of) in LAUNCHERS {
        let (Some(r), Some(n)) = (get(rank), get(of)) else {
            continue;
        };
        return parse_share(&format!("{r}/{n}")).map_err(|_| {
            usage(format!(
                "{rank} is `{r}` and {of} is `{n}`: not a share of a search"
            ))
        });
    }
    let names: Vec<String> = LAUNCHERS
        .iter()
        .map(|(r, n)| format!("{r} and {n}"))
        .collect();
    Err(usage(format!(
        "--collective: no launcher says which process this is; start it with mpirun or srun, or \
         give --share RANK/OF. Looked for {}",
        names.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_typed_with_a_slash() {
        assert_eq!(parse_share("3/4"), Ok(Share { rank: 3, of: 4 }));
        for bad in ["", "1", "4/4", "-1/4", "0/0", "a/b", "1/2/3"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn launchers_are_asked_in_turn() {
        let environment = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                let found = pairs.iter().find(|(n, _)| *n == name);
                found.map(|(_, v)| (*v).to_owned())
            }
        };
        let slurm = environment(&[
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "8"),
            ("PMIX_RANK", "1"),
        ]);
        assert_eq!(of_launcher(slurm).unwrap(), Share { rank: 1, of: 8 });
        let none = of_launcher(environment(&[])).unwrap_err().to_string();
        assert!(
            none.contains("OMPI_COMM_WORLD_RANK") && none.contains("SLURM_NTASKS"),
            "{none}"
        );
        let wrong = environment(&[("PMI_RANK", "8"), ("PMI_SIZE", "8")]);
        assert!(
            of_launcher(wrong)
                .unwrap_err()
                .to_string()
                .contains("PMI_RANK")
        );
    }
}
