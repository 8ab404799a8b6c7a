//! People and organisations.

/// A person or an organisation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agent {
    /// Name: `Family, Given` of a person, or that of an organisation.
    pub name: String,
    /// Address of the ORCID record of a person.
    pub orcid: Option<String>,
    /// Address of the ROR record of an organisation.
    pub ror: Option<String>,
    /// Affiliation of a person.
    pub affiliation: Option<String>,
}

impl Agent {
    /// Parses `NAME <https://orcid.org/0000-0002-1825-0097> (AFFILIATION)`; identifier and affiliation are optional. An organisation may
    /// have an address of `https://ror.org/` instead.
    ///
    /// # Errors
    /// Returns a message that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut agent = Self::default();
        let mut rest = text.trim().to_owned();
        if let Some(at) = rest.find('<') {
            let Some(end) = rest[at..].find('>') else {
                return Err(format!("`{text}`: expected `>` behind `<`"));
            };
            let address = rest[at + 1..at + end].trim().to_owned();
            rest.replace_range(at..=at + end, " ");
            if let Some(orcid) = address.strip_prefix("https://orcid.org/") {
                if !is_orcid(orcid) {
                    return Err(format!(
                        "`{text}`: `{orcid}` is not an ORCID: expected four groups of four digits with a right check digit"
                    ));
                }
                agent.orcid = Some(address);
            } else if address.starts_with("https://ror.org/") {
                agent.ror = Some(address);
            } else {
                return Err(format!(
                    "`{text}`: expected an address of https://orcid.org/ or https://ror.org/ in `<…>`"
                ));
            }
        }
        if let Some(at) = rest.find(" (")
            && let Some(inside) = rest[at + 2..].trim_end().strip_suffix(')')
        {
            agent.affiliation = Some(inside.trim().to_owned()).filter(|name| !name.is_empty());
            rest.truncate(at);
        }
        agent.name = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        if agent.name.is_empty() {
            return Err(format!("`{text}`: the name is missing"));
        }
        Ok(agent)
    }

    /// Whether the agent is a person, as far as it is known: a person has an ORCID or a name `Family, Given`.
    pub fn is_person(&self) -> Option<bool> {
        if self.ror.is_some() {
            return Some(false);
        }
        let parts = self.parts().is_some();
        (self.orcid.is_some() || parts).then_some(true)
    }

    /// Family name and given name of `Family, Given`.
    pub fn parts(&self) -> Option<(&str, &str)> {
        let (family, given) = self.name.split_once(", ")?;
        (!family.is_empty() && !given.is_empty()).then_some((family, given))
    }

    /// Identifier of the agent.
    pub fn iri(&self) -> Option<&str> {
        self.orcid.as_deref().or(self.ror.as_deref())
    }
}

/// Whether a text is an ORCID; the last character is a check digit by ISO 7064, MOD 11-2.
fn is_orcid(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 19 {
        return false;
    }
    let (mut total, mut check) = (0_u32, None);
    for (at, byte) in bytes.iter().enumerate() {
        match (at, byte) {
            (4 | 9 | 14, b'-') => {}
            (4 | 9 | 14, _) => return false,
            (18, b'X') => check = Some(10),
            (18, b'0'..=b'9') => check = Some(u32::from(byte - b'0')),
            (_, b'0'..=b'9') => total = (total + u32::from(byte - b'0')) * 2,
            _ => return false,
        }
    }
    check == Some((12 - total % 11) % 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_in_all_their_forms() {
        let text = "Carberry, Josiah <https://orcid.org/0000-0002-1825-0097> (Brown University)";
        let agent = Agent::parse(text).unwrap();
        assert_eq!(agent.parts(), Some(("Carberry", "Josiah")));
        assert_eq!(agent.affiliation.as_deref(), Some("Brown University"));
        assert_eq!(agent.iri(), Some("https://orcid.org/0000-0002-1825-0097"));
        assert_eq!(agent.is_person(), Some(true));
        let plain = Agent::parse("  ada   lovelace ").unwrap();
        assert_eq!(plain.name, "ada lovelace");
        assert_eq!(plain.is_person(), None);
        let lab = Agent::parse("CERN <https://ror.org/01ggx4157>").unwrap();
        assert_eq!(lab.is_person(), Some(false));
        let unusual = Agent::parse("Team (a)(b)").unwrap();
        assert_eq!(
            (unusual.name.as_str(), unusual.affiliation.as_deref()),
            ("Team", Some("a)(b"))
        );
        for bad in [
            "",
            "<https://orcid.org/0000-0002-1825-0097>",
            "A <https://orcid.org/0000-0002-1825-0098>",
            "A <https://orcid.org/0000-0002-1825-009",
            "A <mailto:a@b>",
        ] {
            assert!(Agent::parse(bad).is_err(), "{bad}");
        }
    }
}
