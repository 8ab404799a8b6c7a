//! Data of open files: reading, writing, copying and allocating, where the kernel does not do it itself.

use crate::attributes::{io_errno, os};
use crate::body::{Body, read_at};
use crate::content::{OpenContent, Opened};
use crate::files::{Answer, Files};
use crate::nodes::Node;
use esker_model::object::Principal;
use fuser::Errno;
use rustix::fs::FallocateFlags;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

impl Node {
    /// Returns the backing file of an open file.
    pub(crate) fn body(&self) -> Answer<Arc<Body>> {
        let body = self.opened().as_ref().and_then(Opened::body);
        body.ok_or(Errno::EBADF)
    }

    /// Reads at an offset and returns the data.
    pub(crate) fn read(&self, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let held = self.opened().as_ref().map(|o| o.content.clone());
        match held {
            None => Err(Errno::EBADF),
            Some(OpenContent::Bytes(bytes)) => {
                let from = usize::try_from(offset)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                let until = from.saturating_add(size as usize).min(bytes.len());
                Ok(bytes.get(from..until).unwrap_or_default().to_vec())
            }
            Some(OpenContent::File(body)) => {
                let mut buffer = vec![0; size as usize];
                let n = read_at(&body.file, &mut buffer, offset).map_err(|e| io_errno(&e))?;
                buffer.truncate(n);
                Ok(buffer)
            }
        }
    }

    /// Reads into a buffer; returns the number of bytes.
    pub(crate) fn read_into(&self, buffer: &mut [u8], offset: u64) -> Answer<usize> {
        let held = self.opened().as_ref().map(|o| o.content.clone());
        match held {
            None => Err(Errno::EBADF),
            Some(OpenContent::Bytes(bytes)) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(from..).unwrap_or_default();
                let n = rest.len().min(buffer.len());
                if let (Some(to), Some(from)) = (buffer.get_mut(..n), rest.get(..n)) {
                    to.copy_from_slice(from);
                }
                Ok(n)
            }
            Some(OpenContent::File(body)) => {
                read_at(&body.file, buffer, offset).map_err(|e| io_errno(&e))
            }
        }
    }

    /// Returns the offset of the next data or hole.
    pub(crate) fn seek(&self, offset: i64, whence: i32) -> Answer<i64> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let held = self.opened().as_ref().map(|o| o.content.clone());
        let found = match (held, whence) {
            (None, _) => return Err(Errno::EBADF),
            (Some(OpenContent::Bytes(bytes)), SEEK_DATA | SEEK_HOLE) => {
                let size = bytes.len() as u64;
                if offset >= size {
                    return Err(Errno::ENXIO);
                }
                if whence == SEEK_DATA { offset } else { size }
            }
            (Some(OpenContent::File(body)), SEEK_DATA) => {
                rustix::fs::seek(&body.file, rustix::fs::SeekFrom::Data(offset)).map_err(os)?
            }
            (Some(OpenContent::File(body)), SEEK_HOLE) => {
                rustix::fs::seek(&body.file, rustix::fs::SeekFrom::Hole(offset)).map_err(os)?
            }
            _ => return Err(Errno::EINVAL),
        };
        i64::try_from(found).map_err(|_| Errno::EOVERFLOW)
    }
}

impl Files {
    /// Reads at an offset for the kernel.
    pub(crate) fn read(&self, node: &Node, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let data = node.read(offset, size)?;
        if self.options.as_of.is_some()
            && let Ok(body) = node.body()
        {
            // Another mount may have written while this one was reading.
            self.demand_past(&body, None)?;
        }
        Ok(data)
    }

    /// Fails with `ESTALE` if this mount shows a past time, and a data file was changed since or has another size. The
    /// time of its last change is the kernel's; no program can set it back.
    pub(crate) fn demand_past(&self, body: &Body, size: Option<u64>) -> Answer<()> {
        let Some(as_of) = self.options.as_of else {
            return Ok(());
        };
        let meta = body.file.metadata().map_err(|e| io_errno(&e))?;
        let changed = meta.ctime().saturating_mul(1_000_000_000);
        let changed = changed.saturating_add(meta.ctime_nsec());
        let end_of_millisecond = as_of.nanos().saturating_add(999_999);
        if changed > end_of_millisecond || size.is_some_and(|size| size != meta.len()) {
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    /// Writes data; returns the number of bytes written, which a full disk may limit.
    pub(crate) fn write(
        &self,
        principal: &Principal,
        node: &Node,
        offset: u64,
        data: &[u8],
        kill: bool,
    ) -> Answer<u32> {
        let body = node.body()?;
        self.check_size_limit(&body, offset.saturating_add(data.len() as u64))?;
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|r| !r.is_empty()) {
            match body.file.write_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if done == 0 => return Err(io_errno(&e)),
                Err(_) => break,
            }
        }
        if kill {
            self.drop_privileges(principal, node)?;
        }
        Ok(done as u32)
    }

    /// Allocates or frees space.
    pub(crate) fn allocate(
        &self,
        principal: &Principal,
        node: &Node,
        (offset, length): (u64, u64),
        mode: i32,
    ) -> Answer<()> {
        let body = node.body()?;
        self.check_size_limit(&body, offset.saturating_add(length))?;
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        rustix::fs::fallocate(&body.file, flags, offset, length).map_err(os)?;
        if node.state().privileged {
            self.drop_privileges(principal, node)?;
        }
        Ok(())
    }

    /// Copies data from one open file to another.
    pub(crate) fn copy_range(
        &self,
        principal: &Principal,
        (from, at): (&Node, u64),
        (to, onto): (&Node, u64),
        length: u64,
    ) -> Answer<u32> {
        let target = to.body()?;
        let length = length.min(1 << 30);
        self.check_size_limit(&target, onto.saturating_add(length))?;
        let held = from.opened().as_ref().map(|o| o.content.clone());
        let n = match held {
            None => return Err(Errno::EBADF),
            Some(OpenContent::Bytes(bytes)) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let until = from.saturating_add(length as usize).min(bytes.len());
                let part = bytes.get(from..until).unwrap_or_default();
                target
                    .file
                    .write_all_at(part, onto)
                    .map_err(|e| io_errno(&e))?;
                part.len()
            }
            Some(OpenContent::File(source)) => {
                let (mut at, mut onto) = (at, onto);
                rustix::fs::copy_file_range(
                    &source.file,
                    Some(&mut at),
                    &target.file,
                    Some(&mut onto),
                    length as usize,
                )
                .map_err(os)?
            }
        };
        if to.state().privileged {
            self.drop_privileges(principal, to)?;
        }
        Ok(n as u32)
    }
}
