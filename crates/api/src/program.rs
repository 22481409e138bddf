//! The file of the running program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The link to the file of this process.
const RUNNING: &str = "/proc/self/exe";
/// What the kernel appends to the path of a file that was deleted.
const DELETED: &[u8] = b" (deleted)";

/// Whether another file is in the place of this program's file: Stoa was upgraded since this process started.
pub fn is_replaced() -> bool {
    is_other().unwrap_or(false)
}

fn is_other() -> std::io::Result<bool> {
    let path = std::fs::read_link(RUNNING)?;
    let bytes = path.as_os_str().as_bytes();
    let path = Path::new(OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)));
    // The link leads to the file of the process even after its deletion.
    let running = std::fs::metadata(RUNNING)?;
    let is_other = |present: std::fs::Metadata| {
        (running.dev(), running.ino()) != (present.dev(), present.ino())
    };
    Ok(std::fs::metadata(path).is_ok_and(is_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: &str = "STOA_TEST_REPLACED";

    /// A copy of this test program is replaced while it runs.
    #[test]
    fn a_replaced_file_is_noticed() {
        if let Some(place) = std::env::var_os(ALONE) {
            let place = Path::new(&place);
            assert!(!is_replaced());
            std::fs::copy(place, place.with_extension("new")).unwrap();
            std::fs::rename(place.with_extension("new"), place).unwrap();
            assert!(is_replaced());
            // A removed package needs no restart.
            std::fs::remove_file(place).unwrap();
            assert!(!is_replaced());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &place).unwrap();
        let mut child = std::process::Command::new(&place);
        let test = "program::tests::a_replaced_file_is_noticed";
        let output = child.args(["--exact", test]).env(ALONE, &place).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}
