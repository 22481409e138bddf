//! journald: the log of systemd, by its own protocol, so that fields stay fields.

use tracing_subscriber::Layer;

use crate::Told;

/// Whether standard error leads to journald: systemd tells device and inode of the stream that it
/// gave to the service (systemd.exec(5), JOURNAL_STREAM).
pub(crate) fn is_there() -> bool {
    let Some(told) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let Ok(stream) = nix::sys::stat::fstat(std::io::stderr()) else { return false };
    told.to_string_lossy() == format!("{}:{}", stream.st_dev, stream.st_ino)
}

/// What writes there; `None` when nobody listens.
pub(crate) fn layer() -> Option<Told> {
    let layer = tracing_journald::layer().ok()?;
    let layer =
        layer.with_syslog_identifier("stoa".to_owned()).with_field_prefix(Some("STOA".to_owned()));
    Some(layer.boxed())
}
