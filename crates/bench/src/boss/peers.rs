//! Results of other databases, from the output of `scripts/boss_peers.py`.

use anyhow::Context as _;
use serde_json::Value as Json;
use std::path::Path;

/// The results of all other databases.
#[derive(Debug, Default)]
pub(super) struct Peers(Vec<Peer>);

#[derive(Debug)]
struct Peer {
    title: String,
    embedded: bool,
    rows: Json,
}

/// The best result in one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    /// Milliseconds, or operations per second.
    pub(super) figure: f64,
    /// The results of all databases, for display.
    pub(super) all: String,
}

impl Peers {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| {
            format!(
                "{}: expected what scripts/boss_peers.py writes",
                path.display()
            )
        })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let json: Json = serde_json::from_str(text)?;
        let peers = json["peers"].as_array().context("`peers` is missing")?;
        let peer = |json: &Json| {
            let text = |key: &str| {
                json[key]
                    .as_str()
                    .with_context(|| format!("`{key}` is missing"))
            };
            let (name, variant) = (text("peer")?, text("variant")?);
            Ok(Peer {
                title: format!("{name}, {variant}"),
                embedded: json["embedded"].as_bool().unwrap_or(false),
                rows: json["rows"].clone(),
            })
        };
        Ok(Self(peers.iter().map(peer).collect::<anyhow::Result<_>>()?))
    }

    /// Returns the best result of the embedded databases or of the servers: the lowest time or the highest rate.
    pub(super) fn best(&self, row: &str, embedded: bool) -> Option<Best> {
        let alike = self.0.iter().filter(|p| p.embedded == embedded);
        let mut best: Option<f64> = None;
        let mut all = Vec::new();
        for peer in alike {
            let (figure, text, better): (_, _, fn(f64, f64) -> f64) = match &peer.rows[row] {
                Json::Object(row) if row.contains_key("ms") => {
                    let Some(ms) = row["ms"].as_f64() else {
                        continue;
                    };
                    (ms, format!("{ms:.2} ms"), f64::min)
                }
                row => {
                    let Some(rate) = row["per_s"].as_f64() else {
                        continue;
                    };
                    (rate, format!("{rate:.0}/s"), f64::max)
                }
            };
            best = Some(best.map_or(figure, |best| better(best, figure)));
            let inside = &peer.rows[format!("{row} inside")]["ms"];
            let inside = inside.as_f64().map(|ms| format!(" ({ms:.2} inside)"));
            all.push(format!(
                "{}: {text}{}",
                peer.title,
                inside.unwrap_or_default()
            ));
        }
        best.map(|figure| Best {
            figure,
            all: all.join("; "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_quickest_or_the_most() {
        let peers = Peers::parse(
            r#"{"peers": [
                {"peer": "A 1", "variant": "x", "embedded": true, "rows": {"load": {"ms": 3.0}, "esearch": {"per_s": 10.0}}},
                {"peer": "B 2", "variant": "y", "embedded": true,
                 "rows": {"load": {"ms": 2.0}, "load inside": {"ms": 1.5}, "esearch": {"per_s": 5.0}}},
                {"peer": "C 3", "variant": "z", "embedded": false, "rows": {"load": {"ms": 1.0}}}
            ]}"#,
        )
        .unwrap();
        let best = peers.best("load", true).unwrap();
        assert!((best.figure - 2.0).abs() < 1e-9);
        assert_eq!(best.all, "A 1, x: 3.00 ms; B 2, y: 2.00 ms (1.50 inside)");
        assert!((peers.best("esearch", true).unwrap().figure - 10.0).abs() < 1e-9);
        assert!((peers.best("load", false).unwrap().figure - 1.0).abs() < 1e-9);
        assert_eq!(peers.best("range 1", true), None);
        assert!(Peers::parse("{}").is_err());
    }
}
