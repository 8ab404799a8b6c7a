//! One Parquet file of the archive.
//!
//! ```text
//!  vertex       16 bytes   the vertex, or the source of the edge
//!  kind         int32      1 static attributes, 2 a user-defined attribute, 3 an edge
//!  edge_type    int32      edges only
//!  destination  16 bytes   edges only
//!  name         text       user-defined attributes only
//!  version      uint64     version of the value
//!  gone         boolean    whether this version deletes or removes the item
//!  value        bytes      the row's value, as model::record encodes it
//! ```
//!
//! Rows are in the order of their keys in `history`. A row group has some thousand rows; the minimum and maximum of each
//! column, which Parquet keeps in the footer, decide whether a range of keys can be in it.

#![deny(clippy::indexing_slicing)]

use crate::engine::HistoryRows;
use crate::limits::ARCHIVE_ROWS_PER_GROUP;
use bytes::Bytes;
use esker_model::codec::DecodeError;
use esker_model::key::{EdgeKey, HistoryKey, attribute_history, static_history};
use esker_model::{EdgeTypeId, Error, Result, Version, VersionRange, VertexId};
use esker_store::KeyRange;
use parquet::basic::Compression;
use parquet::column::reader::ColumnReaderImpl;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType,
    Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = "message esker_history {
    required fixed_len_byte_array(16) vertex;
    required int32 kind;
    optional int32 edge_type;
    optional fixed_len_byte_array(16) destination;
    optional binary name (UTF8);
    required int64 version (INTEGER(64,false));
    required boolean deleted;
    required binary value;
}";

const STATIC: i32 = 1;
const ATTRIBUTE: i32 = 2;
const EDGE: i32 = 3;

/// Bytes of values at which a row group ends, however few rows it has.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// Columns of a row group under construction.
#[derive(Debug, Default)]
struct Columns {
    vertex: Vec<FixedLenByteArray>,
    kind: Vec<i32>,
    edge_type: Vec<i32>,
    edge_type_levels: Vec<i16>,
    destination: Vec<FixedLenByteArray>,
    destination_levels: Vec<i16>,
    name: Vec<ByteArray>,
    name_levels: Vec<i16>,
    version: Vec<i64>,
    deleted: Vec<bool>,
    value: Vec<ByteArray>,
    bytes: usize,
}

fn fixed(id: VertexId) -> FixedLenByteArray {
    ByteArray::from(id.0.to_vec()).into()
}

impl Columns {
    fn push(&mut self, key: HistoryKey, value: Vec<u8>) {
        let (vertex, kind, version, edge, name) = match key {
            HistoryKey::Static(id, version) => (id, STATIC, version, None, None),
            HistoryKey::Attribute(id, name, version) => (id, ATTRIBUTE, version, None, Some(name)),
            HistoryKey::Edge(edge, version) => (
                edge.source,
                EDGE,
                version,
                Some((edge.edge_type, edge.destination)),
                None,
            ),
        };
        self.vertex.push(fixed(vertex));
        self.kind.push(kind);
        self.edge_type_levels.push(i16::from(edge.is_some()));
        self.destination_levels.push(i16::from(edge.is_some()));
        if let Some((edge_type, destination)) = edge {
            self.edge_type.push(i32::from(edge_type.0));
            self.destination.push(fixed(destination));
        }
        self.name_levels.push(i16::from(name.is_some()));
        self.name
            .extend(name.map(|n| ByteArray::from(n.into_bytes())));
        self.version.push(version.0.cast_signed());
        self.deleted
            .push(value.first().is_some_and(|flags| flags & 1 != 0));
        self.bytes += value.len();
        self.value.push(ByteArray::from(value));
    }

    fn full(&self) -> bool {
        self.vertex.len() >= ARCHIVE_ROWS_PER_GROUP || self.bytes >= GROUP_BYTES_MAX
    }

    fn write(&self, mut group: SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        put::<FixedLenByteArrayType>(&mut group, &self.vertex, None)?;
        put::<Int32Type>(&mut group, &self.kind, None)?;
        put::<Int32Type>(&mut group, &self.edge_type, Some(&self.edge_type_levels))?;
        put::<FixedLenByteArrayType>(
            &mut group,
            &self.destination,
            Some(&self.destination_levels),
        )?;
        put::<ByteArrayType>(&mut group, &self.name, Some(&self.name_levels))?;
        put::<Int64Type>(&mut group, &self.version, None)?;
        put::<BoolType>(&mut group, &self.deleted, None)?;
        put::<ByteArrayType>(&mut group, &self.value, None)?;
        group.close().map(|_| ())
    }
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "one column fewer than the schema has".into(),
        ));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// Writes rows, in ascending key order, to a new file, and syncs it. Returns the number of rows.
pub(super) fn write(path: &Path, rows: &mut HistoryRows<'_>) -> Result<u64> {
    let failed = |e: ParquetError| failure("writing", path, e);
    let file =
        File::create(path).map_err(|e| Error::io(format!("writing `{}`", path.display()), e))?;
    let schema = parse_message_type(SCHEMA).map_err(failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
    let mut columns = Columns::default();
    let mut last: Vec<u8> = Vec::new();
    let mut count = 0;
    for row in rows {
        let (key, value) = row?;
        if key <= last {
            return Err(Error::Invalid(
                "rows for the archive must come in ascending key order".into(),
            ));
        }
        columns.push(
            HistoryKey::decode(&key).map_err(|e| Error::corrupt("a row of table `history`", e))?,
            value,
        );
        last = key;
        count += 1;
        if columns.full() {
            columns
                .write(writer.next_row_group().map_err(failed)?)
                .map_err(failed)?;
            columns = Columns::default();
        }
    }
    if !columns.vertex.is_empty() {
        columns
            .write(writer.next_row_group().map_err(failed)?)
            .map_err(failed)?;
    }
    let file = writer.into_inner().map_err(failed)?;
    file.sync_all()
        .map_err(|e| Error::io(format!("writing `{}`", path.display()), e))?;
    Ok(count)
}

fn failure(doing: &str, path: &Path, e: ParquetError) -> Error {
    let context = format!("{doing} the archive `{}`", path.display());
    match e {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => Error::io(context, *cause),
            Err(cause) => Error::io(context, std::io::Error::other(cause.to_string())),
        },
        other => Error::io(
            context,
            std::io::Error::new(std::io::ErrorKind::InvalidData, other.to_string()),
        ),
    }
}

/// A file read at explicit offsets, so that several readers do not share a position.
#[derive(Debug)]
struct PositionedFile {
    file: Arc<File>,
    bytes: u64,
}

/// A reader from one offset on.
struct OffsetReader {
    file: Arc<File>,
    at: u64,
}

impl Read for OffsetReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for PositionedFile {
    type T = OffsetReader;

    fn get_read(&self, start: u64) -> Result<OffsetReader, ParquetError> {
        Ok(OffsetReader {
            file: Arc::clone(&self.file),
            at: start,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.saturating_add(length as u64) > self.bytes {
            return Err(ParquetError::EOF(format!(
                "byte {start} and {length} more of {}",
                self.bytes
            )));
        }
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// An open archive file: the footer is in memory, the rows are read on demand.
pub(super) struct ArchiveFile {
    path: PathBuf,
    reader: SerializedFileReader<PositionedFile>,
    groups: Vec<GroupBounds>,
}

/// Key and value of a row of `history`.
pub(super) type Row = (Vec<u8>, Vec<u8>);

impl std::fmt::Debug for ArchiveFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ArchiveFile").field(&self.path).finish()
    }
}

impl ArchiveFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::io(format!("opening the archive `{}`", path.display()), e);
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let reader = SerializedFileReader::new(PositionedFile {
            file: Arc::new(file),
            bytes,
        });
        let reader = reader.map_err(|e| failure("opening", path, e))?;
        let groups = reader.metadata().row_groups().iter().map(GroupBounds::of);
        Ok(Self {
            path: path.to_path_buf(),
            groups: groups.collect(),
            reader,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of row groups in the file.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// First row group that can contain a key greater than or equal to `key`. Row groups are in key order. A group whose
    /// statistics are less precise than its neighbours' can appear to reach further than they do, and the result is
    /// then too
    /// early, never too late: the binary search moves right only past groups that do not reach the key.
    pub(super) fn first_group(&self, key: &[u8]) -> usize {
        self.groups.partition_point(|g| !g.reaches(key))
    }

    /// Whether a row group can contain a key of the range with a version in `versions`.
    pub(super) fn may_hold(&self, group: usize, range: &KeyRange, versions: VersionRange) -> bool {
        self.groups.get(group).is_some_and(|g| {
            g.reaches(&range.from)
                && range.until.as_ref().is_none_or(|until| g.begins_by(until))
                && g.overlaps(versions)
        })
    }

    /// Whether a row group, and so each later one, begins after the end of the range.
    pub(super) fn is_behind(&self, group: usize, range: &KeyRange) -> bool {
        let until = range.until.as_ref();
        let group = self.groups.get(group);
        until.is_some_and(|until| group.is_some_and(|g| !g.begins_by(until)))
    }

    /// Reads the rows of a row group, in key order.
    pub(super) fn read_group(&self, index: usize) -> Result<Vec<Row>> {
        let failed = |e| failure("reading", &self.path, e);
        let group = self.reader.get_row_group(index).map_err(failed)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        macro_rules! column {
            ($type:ty, $index:expr) => {{
                let reader = group.get_column_reader($index).map_err(failed)?;
                take::<$type>(get_typed_column_reader(reader), rows).map_err(failed)?
            }};
        }
        let vertex = column!(FixedLenByteArrayType, 0).0;
        let kind = column!(Int32Type, 1).0;
        let edge_type = column!(Int32Type, 2).0;
        let destination = column!(FixedLenByteArrayType, 3).0;
        let name = column!(ByteArrayType, 4).0;
        let version = column!(Int64Type, 5).0;
        let value = column!(ByteArrayType, 7).0;
        let (mut edge_type, mut destination, mut name) = (
            edge_type.into_iter(),
            destination.into_iter(),
            name.into_iter(),
        );
        let mut out = Vec::with_capacity(rows);
        let parts = vertex.into_iter().zip(kind).zip(version).zip(value);
        for (at, (((vertex, kind), version), value)) in parts.enumerate() {
            let bad = |expected| {
                Error::corrupt(
                    format!(
                        "row {at} of row group {index} of the archive `{}`",
                        self.path.display()
                    ),
                    DecodeError { at: 0, expected },
                )
            };
            let version = Version(version.cast_unsigned());
            let vertex = id(vertex.data()).ok_or_else(|| bad("a vertex id"))?;
            let key = match kind {
                STATIC => static_history(vertex, version),
                ATTRIBUTE => {
                    let name = name.next().ok_or_else(|| bad("a name"))?;
                    let name =
                        std::str::from_utf8(name.data()).map_err(|_| bad("a name in UTF-8"))?;
                    attribute_history(vertex, name, version)
                }
                EDGE => {
                    let edge_type = edge_type.next().and_then(|t| u16::try_from(t).ok());
                    let destination = destination.next().and_then(|d| id(d.data()));
                    EdgeKey {
                        source: vertex,
                        edge_type: EdgeTypeId(edge_type.ok_or_else(|| bad("an edge type"))?),
                        destination: destination.ok_or_else(|| bad("a destination"))?,
                    }
                    .history(version)
                }
                _ => return Err(bad("a kind (1, 2 or 3)")),
            };
            out.push((key, value.data().to_vec()));
        }
        Ok(out)
    }
}

fn id(bytes: &[u8]) -> Option<VertexId> {
    bytes.try_into().ok().map(VertexId)
}

/// Reads all values of a column that are not null, and the number of rows.
fn take<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<(Vec<T::T>, usize), ParquetError> {
    let (mut values, mut levels, mut read) = (Vec::with_capacity(rows), Vec::new(), 0);
    while read < rows {
        let (records, ..) =
            reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!(
                "{read} rows of {rows} in a column"
            )));
        }
        read += records;
    }
    Ok((values, read))
}

/// Bounds of a row group from the footer. Without statistics the group may contain any key.
#[derive(Debug, Default)]
struct GroupBounds {
    /// Prefixes of the smallest and of the largest key.
    least: Vec<u8>,
    greatest: Vec<u8>,
    /// Oldest and newest version in the row group.
    versions: Option<(Version, Version)>,
}

impl GroupBounds {
    fn of(metadata: &RowGroupMetaData) -> Self {
        let (least, greatest) = bounds(metadata).unwrap_or_default();
        Self {
            least,
            greatest,
            versions: versions(metadata),
        }
    }

    /// Whether the row group can contain a key at or after `key`.
    fn reaches(&self, key: &[u8]) -> bool {
        head(&self.greatest, key.len()) >= head(key, self.greatest.len())
    }

    /// Whether the row group can contain a key before `key`.
    fn begins_by(&self, key: &[u8]) -> bool {
        head(&self.least, key.len()) <= head(key, self.least.len())
    }

    fn overlaps(&self, versions: VersionRange) -> bool {
        self.versions.is_none_or(|(oldest, newest)| {
            newest >= versions.from && (versions.contains(oldest) || oldest <= versions.from)
        })
    }
}

fn head(key: &[u8], of: usize) -> &[u8] {
    key.get(..of).unwrap_or(key)
}

/// Oldest and newest version in a row group.
fn versions(group: &RowGroupMetaData) -> Option<(Version, Version)> {
    let statistics = group.columns().get(5)?.statistics()?;
    let version = |bytes: &[u8]| Some(Version(u64::from_le_bytes(*bytes.first_chunk()?)));
    let oldest = version(statistics.min_bytes_opt()?)?;
    let newest = version(statistics.max_bytes_opt()?)?;
    (oldest <= newest).then_some((oldest, newest))
}

/// Prefixes of the smallest and the largest key of a row group, from the column statistics. While all rows agree in one
/// part of the key, the statistics of the next part extend the prefixes. A single edge of a vertex with millions of
/// edges is
/// then found without reading all of them.
fn bounds(group: &RowGroupMetaData) -> Option<(Vec<u8>, Vec<u8>)> {
    let figures = |column: usize| {
        let statistics = group.columns().get(column)?.statistics()?;
        Some((statistics.min_bytes_opt()?, statistics.max_bytes_opt()?))
    };
    // Parquet stores integers little-endian; those here fit into two bytes.
    let small = |bytes: &[u8]| match bytes {
        [low, high, 0, 0] => Some([*high, *low]),
        _ => None,
    };
    let (least, greatest) = figures(0)?;
    let (mut least, mut greatest) = (least.to_vec(), greatest.to_vec());
    let mut deeper = || {
        if least != greatest {
            return None;
        }
        let (low, high) = figures(1)?;
        let ([_, low], [_, high]) = (small(low)?, small(high)?);
        least.push(low);
        greatest.push(high);
        if low != high || i32::from(low) != EDGE {
            return None;
        }
        let (low, high) = figures(2)?;
        let (low, high) = (small(low)?, small(high)?);
        least.extend(low);
        greatest.extend(high);
        if low != high {
            return None;
        }
        let (low, high) = figures(3)?;
        least.extend(low);
        greatest.extend(high);
        Some(())
    };
    let _: Option<()> = deeper();
    Some((least, greatest))
}
