//! Inode numbers of views (see `view_calls`), the files in views that the kernel knows, and the open ones.

use crate::nodes::{Node, ROOT, VIEW_NUMBERS};
use esker_model::VertexId;
use esker_model::namespace::Entry;
use fuser::{FileAttr, FileType, INodeNo};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Name of the directory of all views.
pub(crate) const NAME: &str = ".esker";
/// Inode number of the directory of all views; the directories of the views follow.
pub(crate) const TOP: u64 = ROOT + 1;
/// Lowest inode number of a file in a view.
pub(crate) const FILES: u64 = 64;

/// The file or directory of an inode number.
#[derive(Debug, Clone)]
pub(crate) enum ViewNode {
    /// The directory of all views.
    Top,
    /// The directory of a view, by the position of the view among those of the target.
    View(usize),
    /// A file or directory in a view.
    File(usize, Arc<Node>),
}

/// An entry of a directory of views.
pub(crate) enum ViewEntry<'e> {
    /// The directory itself or the one above, by its inode number.
    Dot(u64),
    /// The directory of a view, by its inode number.
    View(u64),
    /// A file or directory in a view: the view, the directory of the namespace, and the entry there.
    File(usize, &'e Arc<Node>, &'e Entry),
}

/// A file or directory in a view that the kernel knows.
#[derive(Debug)]
pub(crate) struct ViewFile {
    pub(crate) view: usize,
    /// Its file in the namespace, on which one look-up is held.
    pub(crate) node: Arc<Node>,
    pub(crate) lookups: u64,
}

/// All files in views that the kernel knows, and the open ones.
#[derive(Debug, Default)]
pub(crate) struct Views(pub(crate) Mutex<ViewTable>);

#[derive(Debug, Default)]
pub(crate) struct ViewTable {
    pub(crate) files: HashMap<u64, ViewFile>,
    pub(crate) numbers: HashMap<(usize, VertexId), u64>,
    pub(crate) last_number: u64,
    pub(crate) open: HashMap<u64, Arc<[u8]>>,
    pub(crate) last_handle: u64,
}

impl ViewTable {
    /// Returns an inode number that no file of a view has.
    pub(crate) fn free_number(&mut self) -> u64 {
        loop {
            let next = self.last_number + 1;
            self.last_number = if next < VIEW_NUMBERS {
                next.max(FILES)
            } else {
                FILES
            };
            if !self.files.contains_key(&self.last_number) {
                return self.last_number;
            }
        }
    }
}

/// Whether an inode number is that of a view.
pub(crate) fn is_view(number: u64) -> bool {
    number > ROOT && number < VIEW_NUMBERS
}

/// Turns the attributes of a file into those of its view, whose size is known only when it is opened.
pub(crate) fn view_of(number: u64, attributes: FileAttr) -> FileAttr {
    let directory = attributes.kind == FileType::Directory;
    FileAttr {
        ino: INodeNo(number),
        size: if directory { attributes.size } else { 0 },
        blocks: 0,
        perm: attributes.perm & 0o555,
        nlink: if directory { 2 } else { 1 },
        ..attributes
    }
}
