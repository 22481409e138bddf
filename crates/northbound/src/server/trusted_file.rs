//! Which files may be a certificate, a key or the authorities of clients: those that nobody else can write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Checks that a file is a plain one of root or of this user, that others cannot write to it, and that it is in none of
/// the folders `of_ports`, to which the forwarder writes what it receives.
///
/// # Errors
/// The file and what is wrong with it.
pub fn check(path: &Path, of_ports: &[PathBuf]) -> Result<(), String> {
    let name = path.display();
    let refused = |error: std::io::Error| format!("{name}: {error}");
    let file = path.canonicalize().map_err(refused)?;
    let facts = file.metadata().map_err(refused)?;
    if !facts.is_file() {
        return Err(format!("{name}: is not a plain file"));
    }
    let is_in =
        |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| file.starts_with(folder));
    if let Some(folder) = of_ports.iter().find(|folder| is_in(folder)) {
        let folder = folder.display();
        return Err(format!(
            "{name}: is in {folder}, where ports write files: move it to another folder"
        ));
    }
    // Of this process, as the kernel shows it.
    let own = std::fs::metadata("/proc/self").map_err(refused)?;
    if facts.uid() != 0 && facts.uid() != own.uid() {
        let owner = facts.uid();
        return Err(format!("{name}: belongs to the user {owner}: run `chown root {name}`"));
    }
    let mode = facts.mode() & 0o777;
    if mode & 0o002 != 0 || mode & 0o020 != 0 && facts.gid() != own.gid() {
        return Err(format!(
            "{name}: others can write to it (mode {mode:04o}): run `chmod go-w {name}`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_files_that_nobody_else_can_write_are_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let pcap = folder.path().join("pcap");
        std::fs::create_dir(&pcap).unwrap();
        let of_ports = [pcap.clone(), folder.path().join("missing")];
        let check = |path: &Path| super::check(path, &of_ports);
        let (good, captured) = (folder.path().join("ca.pem"), pcap.join("out.pcap"));
        for file in [&good, &captured] {
            std::fs::write(file, "PEM").unwrap();
        }
        assert_eq!(check(&good), Ok(()));
        let link = folder.path().join("link.pem");
        symlink(&captured, &link).unwrap();
        for path in [&captured, &link] {
            assert!(check(path).unwrap_err().contains("where ports write files"));
        }
        std::fs::set_permissions(&good, Permissions::from_mode(0o666)).unwrap();
        assert!(check(&good).unwrap_err().contains("chmod go-w"));
        assert!(check(&pcap).unwrap_err().contains("not a plain file"));
        assert!(check(&folder.path().join("none")).is_err());
    }
}
