//! On whose behalf a search is made, as it is typed.

use esker_model::object::Asker;

/// Reads `UID` or `UID:GID,GID`.
pub(crate) fn parse_asker(text: &str) -> Result<Asker, String> {
    let bad = || format!("`{text}` is no user: expected UID or UID:GID,GID, as in 1001:100,200");
    let (uid, gids) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| bad());
    Ok(Asker {
        uid: number(uid)?,
        gids: gids
            .split(',')
            .filter(|_| !gids.is_empty())
            .map(number)
            .collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_groups() {
        let asker = |uid, gids: &[i64]| Asker {
            uid,
            gids: gids.to_vec(),
        };
        assert_eq!(parse_asker("1001"), Ok(asker(1001, &[])));
        assert_eq!(parse_asker("1001:100,200"), Ok(asker(1001, &[100, 200])));
        for bad in ["", "ada", "1001:x", "1001:100,", ":1"] {
            assert!(parse_asker(bad).is_err(), "{bad}");
        }
    }
}
