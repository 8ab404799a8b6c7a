//! The network namespace with its devices and addresses, and the removal of leftovers.
//!
//! Each namespace has a number from 0 to 255. A process owns a number while it locks the number's file; a namespace
//! whose file is
//! not locked is a leftover.

use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Folder of the lock files.
const LOCKS: &str = "/run/esker-wan";
/// Folder in which `ip` keeps namespaces.
const NAMES: &str = "/run/netns";
/// Files in a namespace's folder here appear as `/etc/…` to programs that `ip netns exec` starts.
const FILES: &str = "/etc/netns";
/// Length of the devices' transmit queues in packets, large enough to lose none while the relay has no processor.
const QUEUE: u32 = 100_000;

#[derive(Debug)]
pub(crate) struct Namespace {
    number: u8,
    name: String,
    /// Lock of the number, for the lifetime of the namespace.
    _lock: File,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn name(number: u8) -> String {
    format!("esker-wan-{number}")
}

/// Names of the devices outside of the far namespace; a name may have 15 characters.
fn devices(number: u8) -> (String, String) {
    (format!("esker-near{number}"), format!("esker-far{number}"))
}

/// Runs `ip`.
fn ip(arguments: &str) -> Result<String> {
    let out = Command::new("ip").args(arguments.split(' ')).output();
    let out = out.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Unsupported(
            "there is no program `ip`; install iproute2 (`make setup` does)".into(),
        ),
        _ => Error::system("starting `ip`")(e),
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        if said.contains("Operation not permitted") {
            return Err(Error::Unsupported(format!(
                "`ip {arguments}` is not permitted: {said}"
            )));
        }
        return Err(Error::Command {
            command: format!("ip {arguments}"),
            said,
        });
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Kills the processes in a namespace and removes it. Errors are ignored, because no caller can handle them.
fn remove(name: &str) {
    for pid in ip(&format!("netns pids {name}"))
        .unwrap_or_default()
        .lines()
    {
        let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    drop(ip(&format!("netns del {name}")));
    drop(fs::remove_dir_all(Path::new(FILES).join(name)));
}

fn lock(number: u8) -> Result<Option<File>> {
    let path = Path::new(LOCKS).join(number.to_string());
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(Error::system(format!("making {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(e)) => {
            Err(Error::system(format!("locking {}", path.display()))(e))
        }
    }
}

/// Removes namespaces without an owner.
fn remove_leftovers() -> Result<()> {
    for entry in fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let found = entry.file_name().into_string().unwrap_or_default();
        let number = found
            .strip_prefix("esker-wan-")
            .and_then(|n| n.parse().ok());
        if let Some(number) = number
            && let Some(_locked) = lock(number)?
        {
            remove(&found);
        }
    }
    Ok(())
}

fn device(name: &str) -> Result<SyncDevice> {
    let mut made = DeviceBuilder::new().name(name).build_sync();
    // The previous owner of the number may not have released its device yet.
    for _ in 0..100 {
        match &made {
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(20));
                made = DeviceBuilder::new().name(name).build_sync();
            }
            _ => break,
        }
    }
    let device = made.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Unsupported("there is no /dev/net/tun".into()),
        std::io::ErrorKind::PermissionDenied => {
            Error::Unsupported("making TUN devices is not permitted".into())
        }
        _ => Error::system(format!("making the TUN device {name}"))(e),
    })?;
    let set = device.set_nonblocking(true);
    set.map_err(Error::system("a TUN device that does not block"))?;
    Ok(device)
}

impl Namespace {
    /// Creates a namespace and both devices; the far device is in the namespace.
    pub(crate) fn make() -> Result<(Self, SyncDevice, SyncDevice)> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unsupported(
                "only root may make namespaces and TUN devices; run it as root".into(),
            ));
        }
        fs::create_dir_all(LOCKS).map_err(Error::system(format!("making {LOCKS}")))?;
        remove_leftovers()?;
        for number in 0..=u8::MAX {
            let Some(lock) = lock(number)? else { continue };
            ip(&format!("netns add {}", name(number)))?;
            let namespace = Self {
                number,
                name: name(number),
                _lock: lock,
            };
            let (near_name, far_name) = devices(number);
            let near = device(&near_name)?;
            let far = device(&far_name)?;
            ip(&format!("link set dev {far_name} netns {}", namespace.name))?;
            namespace.tell_names()?;
            return Ok((namespace, near, far));
        }
        Err(Error::Unsupported("256 of them are in use".into()))
    }

    /// Writes a hosts file: some servers need names for the addresses, and the namespace has no name server.
    fn tell_names(&self) -> Result<()> {
        let folder = Path::new(FILES).join(&self.name);
        let writing = || Error::system(format!("writing {}/hosts", folder.display()));
        fs::create_dir_all(&folder).map_err(writing())?;
        let own = rustix::system::uname();
        let own = own.nodename().to_string_lossy();
        let text = format!(
            "127.0.0.1 localhost\n{} far {own}\n{} near\n",
            self.far_address(),
            self.near_address()
        );
        fs::write(folder.join("hosts"), text).map_err(writing())
    }

    /// Assigns addresses to the devices and brings them up; packets are delivered from now on.
    pub(crate) fn bring_up(&self) -> Result<()> {
        let (near, far) = devices(self.number);
        let within = format!("-n {} ", self.name);
        for (within, device, address) in [
            ("", near, self.near_address()),
            (&*within, far, self.far_address()),
        ] {
            ip(&format!("{within}address add {address}/30 dev {device}"))?;
            ip(&format!(
                "{within}link set dev {device} txqueuelen {QUEUE} up"
            ))?;
        }
        ip(&format!("{within}link set dev lo up"))?;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// An address of the block reserved for measurements (RFC 2544).
    pub(crate) fn near_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 1)
    }

    pub(crate) fn far_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 2)
    }
}
