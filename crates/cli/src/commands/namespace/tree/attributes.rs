//! Extended attributes of the files of a tree: access control lists, those that match patterns, and project ids.

use super::entry_path::EnteredDirectory;
use crate::args::TreeOptions;
use crate::file_attributes::{
    AttributeReader, FileAt, FileAttributes, HostPrincipals, NFS4_NAMES, access_lists_of,
};
use esker_model::filter::Pattern;
use esker_model::namespace::{INODE_FLAGS, Kind, PROJECT_ID, is_acl};
use esker_terminal::context::Context;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno as Os;
use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

/// Flags for a file that is opened to read its project id: a pipe does not block.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Number of unknown names that a warning shows.
const NAMES_SHOWN: usize = 5;

/// Attributes of a file that were read.
pub(super) struct ScannedAttributes {
    pub(super) attributes: FileAttributes,
    pub(super) project: Option<u32>,
}

/// Names of lists of `NFSv4` that files of a device have; `None` if they have no attributes that are read.
pub(super) type DeviceLists = Option<Vec<&'static [u8]>>;

/// Attributes that a scan reads.
pub(super) struct ScanAttributes {
    reader: AttributeReader,
    project_ids: bool,
    /// Access lists of files, by device.
    devices: Mutex<HashMap<u64, DeviceLists>>,
}

impl ScanAttributes {
    pub(super) fn new(options: &TreeOptions) -> Self {
        Self {
            reader: AttributeReader {
                patterns: options.xattrs.iter().map(|p| Pattern::glob(p)).collect(),
                principals: HostPrincipals::new(options.nfs4_domain.clone()),
            },
            project_ids: options.project_ids,
            devices: Mutex::default(),
        }
    }

    /// Returns which attributes files of a device have, of which this is a directory.
    pub(super) fn of_device(&self, device: u64, directory: BorrowedFd<'_>) -> DeviceLists {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let known = devices.entry(device);
        let lists = known.or_insert_with(|| access_lists_of(directory)).clone();
        lists.or((!self.reader.patterns.is_empty()).then(Vec::new))
    }

    /// Whether a scan decides about a stored attribute, so that it removes one that the file does not have.
    pub(super) fn stores(&self, name: &[u8]) -> bool {
        is_acl(name)
            || name == INODE_FLAGS
            || name == PROJECT_ID && self.project_ids
            || self.reader.matches(name)
    }

    /// Reads the attributes of an entry of a directory; `lists` says which its device has.
    ///
    /// # Errors
    /// `ENOENT` or `ESTALE` if the file is gone.
    pub(super) fn read_entry(
        &self,
        kind: Kind,
        (entered, directory): (&EnteredDirectory<'_>, BorrowedFd<'_>),
        name: &CStr,
        lists: Option<&[&[u8]]>,
    ) -> Result<ScannedAttributes, Os> {
        // Symbolic links have neither access lists nor attributes of users.
        let attributes = match lists {
            Some(unlisted) if kind != Kind::Symlink => {
                let path = entered.path(name);
                match self.reader.read(FileAt::Entry(&path), unlisted) {
                    Err(Os::NOTSUP) => FileAttributes::default(),
                    read => read?,
                }
            }
            _ => FileAttributes::default(),
        };
        let has_project = matches!(kind, Kind::File | Kind::Directory);
        let project = if self.project_ids && has_project {
            // A file that this process may not read has no known project.
            let file = fs::openat(directory, name, READ, Mode::empty()).ok();
            file.and_then(|file| esker_mount::project_id(file).ok())
        } else {
            None
        };
        Ok(ScannedAttributes {
            attributes,
            project,
        })
    }

    /// Reads the attributes of an open file.
    pub(super) fn read_open(&self, kind: Kind, file: BorrowedFd<'_>) -> ScannedAttributes {
        let read = match kind {
            Kind::Symlink => Ok(FileAttributes::default()),
            _ => self.reader.read(FileAt::Open(file), &NFS4_NAMES),
        };
        let attributes = match read {
            Ok(attributes) => attributes,
            Err(Os::NOTSUP) => FileAttributes::default(),
            Err(e) => FileAttributes::of_unknown_access(&std::io::Error::from(e)),
        };
        let project = self.project_ids.then(|| esker_mount::project_id(file).ok());
        ScannedAttributes {
            attributes,
            project: project.flatten(),
        }
    }

    /// Warns about names in access lists that this machine does not know.
    pub(super) fn warn(&self, context: &Context) {
        let unknown = self.reader.principals.unknown();
        if unknown.is_empty() {
            return;
        }
        let shown: Vec<&str> = unknown
            .iter()
            .take(NAMES_SHOWN)
            .map(String::as_str)
            .collect();
        let more = if unknown.len() > NAMES_SHOWN {
            ", …"
        } else {
            ""
        };
        context.warn(&format!(
            "{} unknown users or groups in access lists of NFSv4 ({}{more}): what they are allowed is ignored, and what they are denied is denied to everybody; `--nfs4-domain` says which domain is this machine's",
            unknown.len(),
            shown.join(", ")
        ));
    }
}
