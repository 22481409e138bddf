//! journald, over its native protocol, which keeps structured fields.

use tracing_subscriber::Layer;

use crate::BoxedLayer;

/// Whether standard error is connected to journald: JOURNAL_STREAM has the device and inode of the stream that systemd
/// gave to the service (systemd.exec(5)).
pub(crate) fn is_connected() -> bool {
    let Some(expected) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let Ok(stream) = nix::sys::stat::fstat(std::io::stderr()) else { return false };
    expected.to_string_lossy() == format!("{}:{}", stream.st_dev, stream.st_ino)
}

/// The layer that writes to journald; `None` when its socket is missing.
pub(crate) fn layer() -> Option<BoxedLayer> {
    let layer = tracing_journald::layer().ok()?;
    let layer =
        layer.with_syslog_identifier("stoa".to_owned()).with_field_prefix(Some("STOA".to_owned()));
    Some(layer.boxed())
}
