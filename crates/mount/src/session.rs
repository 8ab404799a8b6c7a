//! Mounting a file system, by the kernel itself for root and by `fusermount3` for others, and the threads that serve
//! it.

use crate::mount_point::{self, UnmountMode};
use crate::options::Options;
use fuser::{Config, Filesystem, MountOption, Notifier, Session, SessionACL};
use nix::mount::MsFlags;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// A mounted file system. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Mounts and starts the threads.
pub(crate) fn begin<F: Filesystem>(
    file_system: F,
    at: &Path,
    options: &Options,
    notifier: impl FnOnce(Notifier),
) -> io::Result<Mounted> {
    let config = config(options);
    let session = if rustix::process::geteuid().is_root() {
        by_kernel(file_system, at, options, config)
    } else {
        Session::new(file_system, at, &config)
    };
    let session = session.map_err(|e| mount_point::explain(&e, at))?;
    notifier(session.notifier());
    let thread = std::thread::Builder::new()
        .name("mount".to_owned())
        .spawn(move || session.run())?;
    Ok(Mounted {
        at: at.to_path_buf(),
        thread: Some(thread),
    })
}

fn acl(options: &Options) -> SessionACL {
    if options.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype(mount_point::TYPE.to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
        if options.is_read_only() {
            MountOption::RO
        } else {
            MountOption::RW
        },
    ];
    config.acl = acl(options);
    config.n_threads = Some(options.threads);
    config.clone_fd = options.threads > 1;
    config
}

/// Mounts without a helper. Unlike the library, this sets the mounting user in the list of mounts.
fn by_kernel<F: Filesystem>(
    file_system: F,
    at: &Path,
    options: &Options,
    config: Config,
) -> io::Result<Session<F>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device: OwnedFd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        device.as_raw_fd()
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID | MsFlags::MS_NOATIME;
    if options.is_read_only() {
        flags |= MsFlags::MS_RDONLY;
    }
    let kind = format!("fuse.{}", mount_point::TYPE);
    let (source, kind, data) = (options.source.as_str(), kind.as_str(), data.as_str());
    nix::mount::mount(Some(source), at, Some(kind), flags, Some(data))?;
    let session = Session::from_fd(file_system, device, acl(options), config);
    if session.is_err() {
        // The new mount has nobody to serve it, so it is removed.
        let _ = mount_point::unmount(at, UnmountMode::Force);
    }
    session
}

impl Mounted {
    /// Returns the mount point.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Whether the file system has been unmounted.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the file system is unmounted.
    pub fn wait(mut self) -> io::Result<()> {
        self.join()
    }

    /// Unmounts the file system.
    pub fn unmount(&self, how: UnmountMode) -> io::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        mount_point::unmount(&self.at, how)
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("a thread of the mount failed")))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.thread.is_some()
            && !self.is_over()
            && mount_point::unmount(&self.at, UnmountMode::Plain).is_err()
        {
            // Programs that still use the mount may continue; this process does not wait for them.
            let _ = mount_point::unmount(&self.at, UnmountMode::Detach);
            return;
        }
        let _ = self.join();
    }
}
