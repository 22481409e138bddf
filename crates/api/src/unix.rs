//! Unix sockets of the contract: listen and connect, with the same errors in all programs.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixListener;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Longest path of a Unix socket on Linux, in bytes, without the terminating zero.
pub const PATH_LIMIT_BYTES: usize = 107;

/// Who may connect: the owner and the group.
const MODE: u32 = 0o660;

/// An error of a socket, with its fix.
#[derive(Debug)]
pub enum Error {
    /// The path does not fit into a socket address.
    PathTooLong(PathBuf),
    /// Another process listens on the socket.
    InUse(PathBuf),
    /// The path exists and is not a socket.
    NotASocket(PathBuf),
    /// No process listens on the socket.
    NoListener(PathBuf),
    /// A system call failed.
    System(PathBuf, io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::PathTooLong(path) => write!(
                f,
                "the socket path {} is longer than {PATH_LIMIT_BYTES} bytes: use a shorter one",
                path.display()
            ),
            Error::InUse(path) => write!(
                f,
                "another process listens on {}: stop that process or use another socket path",
                path.display()
            ),
            Error::NotASocket(path) => write!(
                f,
                "{} exists and is not a socket: move it away or use another socket path",
                path.display()
            ),
            Error::NoListener(path) => write!(f, "no process listens on {}", path.display()),
            Error::System(path, error) => match error.kind() {
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "{}: permission denied: {}",
                    path.display(),
                    permission_fix(
                        &std::fs::read_to_string("/proc/self/status").unwrap_or_default()
                    )
                ),
                _ => write!(f, "{}: {error}", path.display()),
            },
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(_, error) => Some(error),
            _ => None,
        }
    }
}

/// What to do about a socket or folder of another user. `status` is that of this process in /proc.
fn permission_fix(status: &str) -> &'static str {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = users.and_then(|users| users.split_whitespace().nth(1));
    if effective == Some("0") {
        "root lacks CAP_DAC_OVERRIDE here: start the container with --cap-add DAC_OVERRIDE, or run as the user of the \
         router"
    } else {
        "run as root, or as a member of the socket's group"
    }
}

/// Whether a process accepts connections on `path`.
pub fn has_listener(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Listens on `path` with mode 0660. Replaces a stale socket.
///
/// Must be called inside a Tokio runtime.
///
/// # Errors
/// When another process listens there, the path is not a socket or is too long, or a system call fails.
pub fn listen(path: &Path) -> Result<UnixListener, Error> {
    UnixListener::from_std(bind(path)?).map_err(|error| Error::System(path.to_owned(), error))
}

/// As [`listen`], before there is a runtime.
///
/// # Errors
/// As [`listen`].
pub fn bind(path: &Path) -> Result<std::os::unix::net::UnixListener, Error> {
    let system = |error| Error::System(path.to_owned(), error);
    let temporary = temporary_name(path);
    if temporary.as_os_str().len() > PATH_LIMIT_BYTES {
        return Err(Error::PathTooLong(path.to_owned()));
    }
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(Error::NotASocket(path.to_owned()));
        }
        Ok(_) if has_listener(path) => return Err(Error::InUse(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(system(error)),
    }
    // Created under another name and renamed: no client can connect before the mode is set, and a stale socket is
    // replaced atomically.
    let _ = std::fs::remove_file(&temporary);
    let listener = std::os::unix::net::UnixListener::bind(&temporary).map_err(system)?;
    listener.set_nonblocking(true).map_err(system)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(MODE)).map_err(system)?;
    std::fs::rename(&temporary, path).map_err(system)?;
    Ok(listener)
}

/// A name in the same folder that no other process uses: "stoa.sock" -> "stoa.sock.4711".
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    PathBuf::from(name)
}

/// Connects to the process that listens on `path`.
///
/// # Errors
/// When no process listens there, the path is too long, or a system call fails.
pub async fn connect(path: &Path) -> Result<Channel, Error> {
    if path.as_os_str().len() > PATH_LIMIT_BYTES {
        return Err(Error::PathTooLong(path.to_owned()));
    }
    if let Err(error) = tokio::net::UnixStream::connect(path).await {
        return Err(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Error::NoListener(path.to_owned())
            }
            _ => Error::System(path.to_owned(), error),
        });
    }
    Ok(connect_lazily(path))
}

/// A channel that connects to `path` on first use and reconnects after a restart of the peer. Calls fail as unavailable
/// without a listener.
///
/// Must be called inside a Tokio runtime.
pub fn connect_lazily(path: &Path) -> Channel {
    connect_lazily_to(path, |_| ())
}

/// As [`connect_lazily`]; `is_connected` looks at each connection before it is used.
pub fn connect_lazily_to(
    path: &Path,
    is_connected: impl Fn(&tokio::net::UnixStream) + Clone + Send + 'static,
) -> Channel {
    let target = path.to_owned();
    let connector = service_fn(move |_| {
        let (target, is_connected) = (target.clone(), is_connected.clone());
        async move {
            let stream = tokio::net::UnixStream::connect(target).await?;
            is_connected(&stream);
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    // The authority is never resolved: the connector has the path.
    Endpoint::from_static("http://stoa.invalid").connect_with_connector_lazy(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("stoa-api-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder("stale");
        let path = folder.join("stoa.sock");
        drop(listen(&path).unwrap());
        assert!(path.exists(), "the file of a socket stays after its listener");
        let listener = listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, MODE);
        assert!(matches!(listen(&path), Err(Error::InUse(_))));
        drop(listener);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn other_files_are_not_replaced() {
        let folder = folder("file");
        let path = folder.join("stoa.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path), Err(Error::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(matches!(connect(&folder.join("nobody")).await, Err(Error::NoListener(_))));
        let long = folder.join("x".repeat(200));
        assert!(matches!(listen(&long), Err(Error::PathTooLong(_))));
        assert!(matches!(connect(&long).await, Err(Error::PathTooLong(_))));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
