//! Reading extended attributes of files of this machine: access control lists, and those that match patterns.

mod principals;

pub(crate) use principals::HostPrincipals;

use esker_model::filter::Pattern;
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{
    ACL_ACCESS, ACL_DEFAULT, Acl, NFS4_ACL, NFS4_ACL_NAMED, Nfs4Acl, Nfs4Name, XATTR_BYTES_MAX,
    display, is_acl,
};
use rustix::fs;
use rustix::io::Errno as Os;
use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Size of the buffers that mostly suffice, in bytes.
const USUAL_BYTES: usize = 1 << 10;
/// Largest list of names of a file's attributes that Linux returns, in bytes.
const NAMES_BYTES_MAX: usize = 1 << 16;

/// A file whose attributes are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileAt<'f> {
    /// A file by its path; a symbolic link itself.
    Entry(&'f CStr),
    /// An open file, also one that was opened only as a place in the file system (`O_PATH`).
    Open(BorrowedFd<'f>),
}

impl FileAt<'_> {
    fn names(self, buffer: &mut [u8]) -> Result<usize, Os> {
        match self {
            Self::Entry(path) => fs::llistxattr(path, buffer),
            Self::Open(file) => fs::listxattr(path_of(file), buffer),
        }
    }

    fn value(self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Os> {
        match self {
            Self::Entry(path) => fs::lgetxattr(path, name, buffer),
            Self::Open(file) => fs::getxattr(path_of(file), name, buffer),
        }
    }

    /// Returns the value of an attribute, or `None` if the file has none of that name.
    pub(crate) fn get(self, name: &[u8]) -> Result<Option<Vec<u8>>, Os> {
        match grown(XATTR_BYTES_MAX, &mut |buffer| self.value(name, buffer)) {
            Ok(value) => Ok(Some(value)),
            Err(Os::NODATA | Os::NOTSUP) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Returns a path of an open file.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Reads into a buffer of the usual size, and into one of the largest size if that is too small.
fn grown(
    largest: usize,
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize, Os>,
) -> Result<Vec<u8>, Os> {
    let mut usual = [0; USUAL_BYTES];
    match read(&mut usual) {
        Ok(length) => return Ok(usual.get(..length).unwrap_or_default().to_vec()),
        Err(Os::RANGE) => {}
        Err(e) => return Err(e),
    }
    let mut buffer = vec![0; largest];
    let length = read(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Attributes of a file, by name, in their stored form.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileAttributes {
    pub(crate) values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why it is not known who may use the file.
    pub(crate) unknown_access: Option<String>,
    /// Names of attributes that are too large to store.
    pub(crate) too_large: Vec<String>,
}

impl FileAttributes {
    /// Attributes of a file of which it is not known who may use it.
    pub(crate) fn of_unknown_access(why: &dyn std::fmt::Display) -> Self {
        Self {
            unknown_access: Some(format!("its attributes: {why}")),
            ..Self::default()
        }
    }

    /// Returns messages about what could not be read or stored.
    pub(crate) fn problems(&self) -> Vec<String> {
        let hidden = self.unknown_access.iter();
        let hidden = hidden.map(|why| format!("hidden from all users, because of {why}"));
        let large = self.too_large.iter();
        let large = large.map(|name| {
            format!("its attribute `{name}` is not stored: a file's attributes have at most 64 KiB")
        });
        hidden.chain(large).collect()
    }

    fn put(&mut self, name: &[u8], value: Vec<u8>) {
        self.values.push((name.to_vec(), value));
    }

    fn hide(&mut self, name: &[u8], why: &dyn std::fmt::Display) {
        self.values.clear();
        self.unknown_access = Some(format!("its attribute `{}`: {why}", display(name)));
    }
}

/// Reads attributes of files by their names.
pub(crate) struct AttributeReader {
    /// Names of the attributes to read besides access lists.
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) principals: HostPrincipals,
}

impl AttributeReader {
    /// Whether an attribute is read because of its name. Tags belong to the database, and are not read.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        !is_acl(name)
            && !name.starts_with(b"system.")
            && !name.starts_with(TAG_PREFIX)
            && std::str::from_utf8(name)
                .is_ok_and(|name| self.patterns.iter().any(|pattern| pattern.matches(name)))
    }

    /// Reads the attributes of a file. If its access lists cannot be read, the result says so. Lists named by `unlisted` are read
    /// also where the file system does not list them.
    ///
    /// # Errors
    /// `ENOTSUP` if the file system has no attributes, `ENOENT` and `ESTALE` if the file is gone.
    pub(crate) fn read(&self, file: FileAt<'_>, unlisted: &[&[u8]]) -> Result<FileAttributes, Os> {
        // Most files have no attributes.
        let listed = match grown(NAMES_BYTES_MAX, &mut |buffer| file.names(buffer)) {
            Ok(names) => names,
            Err(Os::NOTSUP) if !unlisted.is_empty() => Vec::new(),
            Err(e @ (Os::NOTSUP | Os::NOENT | Os::STALE)) => return Err(e),
            Err(e) => {
                return Ok(FileAttributes::of_unknown_access(&std::io::Error::from(e)));
            }
        };
        let mut found = FileAttributes::default();
        let mut total = 0;
        let mut names: Vec<&[u8]> = listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .collect();
        names.extend(unlisted);
        names.sort_unstable();
        names.dedup();
        for name in names {
            let is_list = is_acl(name) || name == NFS4_ACL_NAMED;
            if !is_list && !self.matches(name) {
                continue;
            }
            let value = match file.get(name) {
                Ok(Some(value)) => value,
                Err(e) if is_list => {
                    found.hide(name, &std::io::Error::from(e));
                    return Ok(found);
                }
                // An attribute that this process may not read is left out.
                Ok(None) | Err(_) => continue,
            };
            if !is_list {
                total += name.len() + value.len();
                if total > XATTR_BYTES_MAX {
                    found.too_large.push(display(name).to_string());
                } else {
                    found.put(name, value);
                }
                continue;
            }
            match self.stored_list(name, &value) {
                Ok(Some((name, value))) => found.put(name, value),
                Ok(None) => {}
                Err(why) => {
                    found.hide(name, &why);
                    return Ok(found);
                }
            }
        }
        found.values.sort_unstable();
        found.values.dedup_by(|a, b| a.0 == b.0);
        Ok(found)
    }

    /// Returns an access list in its stored form; `None` if it says no more than the mode.
    fn stored_list(
        &self,
        name: &[u8],
        value: &[u8],
    ) -> Result<Option<(&'static [u8], Vec<u8>)>, String> {
        if name == ACL_ACCESS || name == ACL_DEFAULT {
            let name = if name == ACL_ACCESS {
                ACL_ACCESS
            } else {
                ACL_DEFAULT
            };
            let list = Acl::parse(value).map_err(|e| e.to_string())?;
            let list = list.filter(|list| name == ACL_DEFAULT || !list.is_mode());
            return Ok(list.map(|list| (name, list.encode())));
        }
        let list = nfs4_list(name, value, &mut |name| self.principals.id_of(name))?;
        let value = list.encode();
        if value.len() > XATTR_BYTES_MAX {
            return Err(format!(
                "a list of {} entries is too large",
                list.entries.len()
            ));
        }
        Ok(Some((NFS4_ACL, value)))
    }
}

/// Decodes a list of `NFSv4` in one of its two forms.
pub(crate) fn nfs4_list(
    name: &[u8],
    value: &[u8],
    id_of: &mut dyn FnMut(Nfs4Name<'_>) -> Option<u32>,
) -> Result<Nfs4Acl, String> {
    let list = if name == NFS4_ACL {
        Nfs4Acl::parse(value)
    } else {
        Nfs4Acl::parse_named(value, id_of)
    };
    list.map_err(|e| e.to_string())
}

/// Names of the attributes with lists of `NFSv4`.
pub(crate) const NFS4_NAMES: [&[u8]; 2] = [NFS4_ACL, NFS4_ACL_NAMED];

/// Returns the names of lists of `NFSv4` that files of the file system of this directory have; `None` if they have no access lists
/// at all.
pub(crate) fn access_lists_of(directory: BorrowedFd<'_>) -> Option<Vec<&'static [u8]>> {
    /// File systems that show files of others: overlayfs, FUSE, eCryptfs.
    const STACKING: [fs::FsWord; 3] = [0x794c_7630, 0x6573_5546, 0xf15f];
    let file = FileAt::Open(directory);
    let refuses = |name: &[u8]| file.value(name, &mut [0; USUAL_BYTES]) == Err(Os::NOTSUP);
    let stacking = || fs::fstatfs(directory).is_ok_and(|s| STACKING.contains(&s.f_type));
    let nfs4: Vec<_> = NFS4_NAMES.into_iter().filter(|n| !refuses(n)).collect();
    let has_any = !nfs4.is_empty() || !refuses(ACL_ACCESS) || stacking();
    has_any.then_some(nfs4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn attributes_are_read_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let set = |name: &str, value: &[u8]| {
            fs::setxattr(file.path(), name, value, fs::XattrFlags::empty())
        };
        if set("user.colour", b"red") == Err(Os::NOTSUP) {
            // The file system of temporary files has no attributes.
            return;
        }
        set("user.other", &[7; 1_100]).unwrap();
        set("user.esker.tag", b"1").unwrap();
        let list = Acl {
            owner: 6,
            users: (0..200).map(|id| (id, 4)).collect(),
            group: 0,
            groups: Vec::new(),
            mask: Some(4),
            other: 0,
        };
        let with_list = set("system.posix_acl_access", &list.encode()) != Err(Os::NOTSUP);
        let read = |patterns: &[&str]| {
            let reader = AttributeReader {
                patterns: patterns.iter().map(|p| Pattern::glob(p)).collect(),
                principals: HostPrincipals::new(None),
            };
            let found = reader
                .read(FileAt::Open(file.as_file().as_fd()), &NFS4_NAMES)
                .unwrap();
            assert_eq!(found.unknown_access, None);
            let names = found
                .values
                .iter()
                .map(|(n, _)| String::from_utf8(n.clone()).unwrap());
            names.filter(|n| n.starts_with("user.")).collect::<Vec<_>>()
        };
        assert_eq!(read(&[]), [""; 0]);
        assert_eq!(read(&["user.c*"]), ["user.colour"]);
        assert_eq!(read(&["*"]), ["user.colour", "user.other"]);
        let reader = AttributeReader {
            patterns: Vec::new(),
            principals: HostPrincipals::new(None),
        };
        let found = reader
            .read(FileAt::Open(file.as_file().as_fd()), &NFS4_NAMES)
            .unwrap();
        let expected = with_list.then(|| (ACL_ACCESS.to_vec(), list.encode()));
        assert_eq!(found.values, Vec::from_iter(expected));
        assert_eq!(
            access_lists_of(file.as_file().as_fd()),
            with_list.then(Vec::new)
        );
    }

    #[test]
    fn lists_that_are_not_understood_are_no_lists() {
        let reader = AttributeReader {
            patterns: Vec::new(),
            principals: HostPrincipals::new(None),
        };
        for name in [ACL_ACCESS, ACL_DEFAULT, NFS4_ACL, NFS4_ACL_NAMED] {
            assert!(reader.stored_list(name, b"damaged").is_err());
        }
        let owner_reads = [
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 0, 6,
        ];
        let value = [&owner_reads[..], b"OWNER@\0\0"].concat();
        let (name, value) = reader.stored_list(NFS4_ACL_NAMED, &value).unwrap().unwrap();
        let list = Nfs4Acl::parse(&value).unwrap();
        assert_eq!(
            (name, list.texts()),
            (NFS4_ACL, vec!["A::OWNER@:rt".to_owned()])
        );
    }
}
