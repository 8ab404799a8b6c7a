//! Formats of records, their media types and their names in requests.

/// A format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An HTML page.
    Html,
    /// `DataCite` 4.6 as JSON.
    Datacite,
    /// `DataCite` 4.6 as XML.
    DataciteXml,
    /// A data set of schema.org as JSON-LD.
    SchemaOrg,
    /// Croissant 1.0.
    Croissant,
    /// DCAT-AP 3 as JSON-LD.
    Dcat,
    /// Signposting's links as JSON (RFC 9264).
    Linkset,
    /// Signposting's links as text (RFC 9264).
    LinksetText,
}

/// Profile of schema.org in the media type of JSON-LD.
const SCHEMA_ORG: &str = "https://schema.org/";
/// Profile of Croissant.
const CROISSANT: &str = "http://mlcommons.org/croissant/1.0";
/// Profile of DCAT-AP 3.
const DCAT_AP: &str = "http://data.europa.eu/r5r/";

impl Format {
    /// All formats; the first one is for clients that accept everything.
    pub const ALL: [Self; 8] = [
        Self::Html,
        Self::Datacite,
        Self::DataciteXml,
        Self::SchemaOrg,
        Self::Croissant,
        Self::Dcat,
        Self::Linkset,
        Self::LinksetText,
    ];

    /// Formats that describe the item.
    pub const DESCRIPTIONS: [Self; 5] = [
        Self::Datacite,
        Self::DataciteXml,
        Self::SchemaOrg,
        Self::Croissant,
        Self::Dcat,
    ];

    /// Name of the format in a request, such as `?format=datacite`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Datacite => "datacite",
            Self::DataciteXml => "datacite-xml",
            Self::SchemaOrg => "schema-org",
            Self::Croissant => "croissant",
            Self::Dcat => "dcat",
            Self::Linkset => "linkset",
            Self::LinksetText => "linkset-text",
        }
    }

    /// Name of the format for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Html => "HTML",
            Self::Datacite => "DataCite JSON",
            Self::DataciteXml => "DataCite XML",
            Self::SchemaOrg => "schema.org",
            Self::Croissant => "Croissant",
            Self::Dcat => "DCAT-AP",
            Self::Linkset => "Links as JSON",
            Self::LinksetText => "Links as text",
        }
    }

    /// Media type without parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Html => "text/html",
            Self::Datacite => "application/vnd.datacite.datacite+json",
            Self::DataciteXml => "application/vnd.datacite.datacite+xml",
            Self::SchemaOrg | Self::Croissant | Self::Dcat => "application/ld+json",
            Self::Linkset => "application/linkset+json",
            Self::LinksetText => "application/linkset",
        }
    }

    /// Profile that tells formats of one media type apart.
    pub const fn profile(self) -> Option<&'static str> {
        match self {
            Self::SchemaOrg => Some(SCHEMA_ORG),
            Self::Croissant => Some(CROISSANT),
            Self::Dcat => Some(DCAT_AP),
            _ => None,
        }
    }

    /// Value of the header `Content-Type`.
    pub fn content_type(self) -> String {
        match (self, self.profile()) {
            (Self::Html, _) => "text/html; charset=utf-8".to_owned(),
            (_, Some(profile)) => format!("{}; profile=\"{profile}\"", self.media_type()),
            (_, None) => self.media_type().to_owned(),
        }
    }

    /// Returns the format of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Chooses a format by the header `Accept` (RFC 9110, section 12.5.1). `None` if the client accepts none.
    pub fn negotiate(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Html);
        }
        let mut best: Option<(Self, f64, u8)> = None;
        for part in accept.split(',') {
            let mut pieces = part.split(';').map(str::trim);
            let kind = pieces.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut profile) = (1.0, None);
            for piece in pieces {
                match piece.split_once('=') {
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                        quality = value.trim().parse().unwrap_or(0.0);
                    }
                    Some((name, value)) if name.trim().eq_ignore_ascii_case("profile") => {
                        profile = Some(value.trim().trim_matches('"').to_owned());
                    }
                    _ => {}
                }
            }
            for format in Self::ALL {
                let Some(exact) = format.fits(&kind, profile.as_deref()) else {
                    continue;
                };
                let better = best.is_none_or(|(_, q, e)| (quality, exact) > (q, e));
                if quality > 0.0 && better {
                    best = Some((format, quality, exact));
                }
            }
        }
        best.map(|(format, _, _)| format)
    }

    /// Whether a range of media types includes the format, and how exactly: 3 with a profile, 2 for a type, 1 for `type/*`, 0 for `*/*`.
    fn fits(self, kind: &str, profile: Option<&str>) -> Option<u8> {
        let own = self.media_type();
        if let Some(wanted) = profile {
            let same = self.profile().is_some_and(|own| {
                let plain = |text: &str| {
                    let text = text.trim_end_matches('/');
                    let text = text.strip_prefix("https://").unwrap_or(text);
                    text.strip_prefix("http://").unwrap_or(text).to_owned()
                };
                plain(own) == plain(wanted)
            });
            return (kind == own && same).then_some(3);
        }
        // Plain JSON, JSON-LD and XML are widely asked for; each means the most common of its formats.
        let common = match self {
            Self::SchemaOrg => kind == "application/json",
            Self::DataciteXml => matches!(kind, "application/xml" | "text/xml"),
            _ => false,
        };
        if kind == own || common {
            return Some(2);
        }
        let family = own.split('/').next().unwrap_or_default();
        match kind.split_once('/') {
            Some(("*", "*")) => Some(0),
            Some((wanted, "*")) if wanted == family => Some(1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_format_that_they_accept() {
        for (accept, expected) in [
            ("", Some(Format::Html)),
            ("*/*", Some(Format::Html)),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Some(Format::Html),
            ),
            ("application/ld+json", Some(Format::SchemaOrg)),
            (
                "application/ld+json;profile=\"http://mlcommons.org/croissant/1.0\"",
                Some(Format::Croissant),
            ),
            (
                "application/ld+json; profile=http://data.europa.eu/r5r",
                Some(Format::Dcat),
            ),
            ("application/json", Some(Format::SchemaOrg)),
            ("application/linkset+json", Some(Format::Linkset)),
            (
                "text/html;q=0.3, application/vnd.datacite.datacite+json",
                Some(Format::Datacite),
            ),
            ("application/xml", Some(Format::DataciteXml)),
            ("image/png", None),
            ("text/html;q=0", None),
            ("application/ld+json;profile=\"https://example.org/\"", None),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept}");
        }
    }

    #[test]
    fn each_format_has_a_name_of_its_own() {
        for format in Format::ALL {
            assert_eq!(Format::of_name(format.name()), Some(format));
        }
        assert_eq!(Format::of_name("bibtex"), None);
    }
}
