//! The namespace, its devices and addresses, and what killed programs have left of theirs.
//!
//! Each is a number from 0 to 255. Whoever has a lock on the number's file has that number; a namespace whose number nobody
//! has was left behind.

use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Where the locks are.
const LOCKS: &str = "/run/esker-wan";
/// Where `ip` keeps namespaces.
const NAMES: &str = "/run/netns";
/// What lies here in a namespace's folder is seen as `/etc/…` by programs that `ip netns exec` starts.
const FILES: &str = "/etc/netns";
/// Packets that wait for the relay at most: it is to lose none, even when it has no processor for a while.
const QUEUE: u32 = 100_000;

#[derive(Debug)]
pub(crate) struct Space {
    number: u8,
    name: String,
    /// Held as long as this.
    _lock: File,
}

impl Drop for Space {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn name(number: u8) -> String {
    format!("esker-wan-{number}")
}

/// The devices' names outside of the far namespace; one may have 15 letters.
fn devices(number: u8) -> (String, String) {
    (format!("esker-near{number}"), format!("esker-far{number}"))
}

/// Runs `ip`.
fn ip(arguments: &str) -> Result<String> {
    let out = Command::new("ip").args(arguments.split(' ')).output();
    let out = out.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Lacking("there is no program `ip`; install iproute2 (`make setup` does)".into())
        }
        _ => Error::system("starting `ip`")(e),
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        if said.contains("Operation not permitted") {
            return Err(Error::Lacking(format!(
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

/// Ends what runs in a namespace, and takes it away. Errors are not told: nobody can do anything about them.
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

/// Takes away namespaces that nobody has.
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
    // Whoever had the number last may still be letting go of its device.
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
        std::io::ErrorKind::NotFound => Error::Lacking("there is no /dev/net/tun".into()),
        std::io::ErrorKind::PermissionDenied => {
            Error::Lacking("making TUN devices is not permitted".into())
        }
        _ => Error::system(format!("making the TUN device {name}"))(e),
    })?;
    let set = device.set_nonblocking(true);
    set.map_err(Error::system("a TUN device that does not block"))?;
    Ok(device)
}

impl Space {
    /// Makes a namespace and both devices; the far one is in it.
    pub(crate) fn make() -> Result<(Self, SyncDevice, SyncDevice)> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Lacking(
                "only root may make namespaces and TUN devices; run it as root".into(),
            ));
        }
        fs::create_dir_all(LOCKS).map_err(Error::system(format!("making {LOCKS}")))?;
        remove_leftovers()?;
        for number in 0..=u8::MAX {
            let Some(lock) = lock(number)? else { continue };
            ip(&format!("netns add {}", name(number)))?;
            let space = Self {
                number,
                name: name(number),
                _lock: lock,
            };
            let (near_name, far_name) = devices(number);
            let near = device(&near_name)?;
            let far = device(&far_name)?;
            ip(&format!("link set dev {far_name} netns {}", space.name))?;
            space.tell_names()?;
            return Ok((space, near, far));
        }
        Err(Error::Lacking("256 of them are in use".into()))
    }

    /// Some servers do not start unless the addresses have names; nobody can be asked for them there.
    fn tell_names(&self) -> Result<()> {
        let folder = Path::new(FILES).join(&self.name);
        let writing = || Error::system(format!("writing {}/hosts", folder.display()));
        fs::create_dir_all(&folder).map_err(writing())?;
        let own = rustix::system::uname();
        let own = own.nodename().to_string_lossy();
        let text = format!(
            "127.0.0.1 localhost\n{} far {own}\n{} near\n",
            self.far(),
            self.near()
        );
        fs::write(folder.join("hosts"), text).map_err(writing())
    }

    /// Gives the devices their addresses: what is sent now gets there.
    pub(crate) fn bring_up(&self) -> Result<()> {
        let (near, far) = devices(self.number);
        let within = format!("-n {} ", self.name);
        for (within, device, address) in [("", near, self.near()), (&*within, far, self.far())] {
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

    /// Out of the block that is set aside for measurements (RFC 2544).
    pub(crate) fn near(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 1)
    }

    pub(crate) fn far(&self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.number, 2)
    }
}
