//! `esker namespace explain`: shows how a directory is stored.

use super::path;
use crate::args::NamespaceExplainArgs;
use esker_model::Error;
use esker_model::namespace::{Errno, Kind, Namespace as _, Partition, id_at};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::count as count_of;
use std::collections::BTreeMap;

pub(crate) fn explain(
    args: &NamespaceExplainArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let path = path(&args.path)?;
    let inode = database.stat(None, &path, true)?;
    if !inode.is_directory() {
        return Err(Error::from(Errno::NotDirectory.at(&path)).into());
    }
    let own = database.usage(None, &path, false)?;
    let all = database.usage(None, &path, true)?;
    let by_path = inode.id == id_at(Kind::Directory, path.as_bytes());
    let mut rows = Rows::new(
        &mut context.out,
        args.format.format,
        context.style,
        &["what", "value"],
    );
    let mut row = |what: &str, value: Cell| rows.row(vec![what.into(), value]);
    row("vertex", inode.id.to_string().into())?;
    row(
        "its id comes from",
        if by_path {
            "its path"
        } else {
            "where it was made: it was moved, or another one was here before"
        }
        .into(),
    )?;
    row("entries: files", Cell::Count(own.files))?;
    row("entries: directories", Cell::Count(own.directories))?;
    row("all below: files", Cell::Count(all.files))?;
    row("all below: directories", Cell::Count(all.directories - 1))?;
    row("all below: bytes", Cell::Count(all.bytes))?;
    let partitions = database.partitions(&path)?;
    row("partitions", Cell::Count(partitions.len() as u64))?;
    row("bitmap", bitmap(&partitions).into())?;
    for (server, (count, entries)) in by_server(&partitions) {
        row(
            &format!("server {server}"),
            format!(
                "{} partitions, {} entries",
                count_of(count),
                count_of(entries)
            )
            .into(),
        )?;
    }
    let shown = if args.all { usize::MAX } else { SHOWN_MAX };
    for partition in partitions.iter().take(shown) {
        row(
            &format!("partition {}", partition.index),
            format!(
                "names whose hashes begin with {}: {} entries, on server {}",
                bits(partition),
                count_of(partition.entries),
                partition.server
            )
            .into(),
        )?;
    }
    if let Some(more) = partitions.len().checked_sub(shown).filter(|n| *n > 0) {
        row(
            "more",
            format!("{more} partitions: --all shows them").into(),
        )?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}

/// Maximum number of partitions to print without `--all`.
const SHOWN_MAX: usize = 32;

/// Returns the numbers of partitions and entries by server.
fn by_server(partitions: &[Partition]) -> BTreeMap<u32, (u64, u64)> {
    let mut servers = BTreeMap::<u32, (u64, u64)>::new();
    for partition in partitions {
        let (count, entries) = servers.entry(partition.server).or_default();
        *count += 1;
        *entries += partition.entries;
    }
    servers
}

/// Returns the existing partitions as GIGA+ does: bit `i`, from the right, is partition `i`.
fn bitmap(partitions: &[Partition]) -> String {
    let most = partitions.iter().map(|p| p.index).max().unwrap_or(0) as usize;
    let mut digits = vec![0_u8; most / 4 + 1];
    for partition in partitions {
        if let Some(digit) = digits.get_mut(partition.index as usize / 4) {
            *digit |= 1 << (partition.index % 4);
        }
    }
    let digits = digits.iter().rev().map(|d| format!("{d:x}"));
    format!("0x{}", digits.collect::<String>())
}

/// Returns the leading bits of the hashes in a partition: those of its number, lowest first.
fn bits(partition: &Partition) -> String {
    let bits = (0..partition.depth).map(|bit| {
        if partition.index >> bit & 1 == 1 {
            '1'
        } else {
            '0'
        }
    });
    let bits: String = bits.collect();
    if bits.is_empty() {
        "anything".into()
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(index: u32, depth: u32, server: u32, entries: u64) -> Partition {
        Partition {
            index,
            depth,
            server,
            entries,
        }
    }

    #[test]
    fn partitions_are_told_by_bitmap_bits_and_server() {
        // Split once, then the lower half again.
        let all = [
            partition(0, 2, 0, 5),
            partition(2, 2, 1, 6),
            partition(1, 1, 1, 7),
        ];
        assert_eq!(bitmap(&all), "0x7");
        assert_eq!(bitmap(&[partition(0, 0, 0, 0)]), "0x1");
        assert_eq!(bitmap(&[partition(9, 4, 0, 0)]), "0x200");
        let told: Vec<String> = all.iter().map(bits).collect();
        assert_eq!(told, ["00", "01", "1"]);
        assert_eq!(bits(&partition(0, 0, 0, 0)), "anything");
        let servers: Vec<_> = by_server(&all).into_iter().collect();
        assert_eq!(servers, [(0, (1, 5)), (1, (2, 13))]);
    }
}
