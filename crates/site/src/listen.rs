//! Where a tier listens: a port, or a socket that only its owner reaches.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// What a socket's path stands behind.
const UNIX: &str = "unix:";

/// What is listened at.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Socket),
}

/// The file of a socket, which goes with its listener.
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // Whoever removed it was faster.
        let _ = fs::remove_file(&self.0);
    }
}

/// Where that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listening {
    /// A port.
    Tcp(SocketAddr),
    /// A socket's file.
    Unix(PathBuf),
}

/// A connection that has come.
pub(crate) enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Stream {
    /// Where it comes from.
    pub(crate) fn ip(&self) -> IpAddr {
        match self {
            Self::Tcp(_, from) => from.ip(),
            Self::Unix(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// The path in `unix:/PATH`.
pub(crate) fn socket(listen: &str) -> Option<&Path> {
    let path = listen.strip_prefix(UNIX)?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Removes a socket that nobody listens at any more.
async fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(about) if !about.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something else than a socket",
        )),
        Ok(_) => match UnixStream::connect(path).await {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
    }
}

impl Listener {
    /// Listens at `HOST:PORT`, or at `unix:/PATH`: at a socket of mode 0600.
    pub(crate) async fn bind(listen: &str) -> io::Result<Self> {
        let Some(path) = socket(listen) else {
            return Ok(Self::Tcp(TcpListener::bind(listen).await?));
        };
        clear(path).await?;
        let listener = UnixListener::bind(path)?;
        let socket = Socket(path.to_path_buf());
        // The kernel says of each connection whose it is, too.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix(listener, socket))
    }

    /// Where it listens.
    pub(crate) fn listening(&self) -> io::Result<Listening> {
        Ok(match self {
            Self::Tcp(listener) => Listening::Tcp(listener.local_addr()?),
            Self::Unix(_, socket) => Listening::Unix(socket.0.clone()),
        })
    }

    /// The next connection, and its user if the kernel says that.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<u32>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let here = stream.local_addr();
                let user = here
                    .ok()
                    .and_then(|here| esker_access::peer::user_of(from, here));
                Ok((Stream::Tcp(stream, from), user))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|c| c.uid());
                Ok((Stream::Unix(stream), user))
            }
        }
    }
}
