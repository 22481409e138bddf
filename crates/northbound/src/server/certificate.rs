//! The server's certificate: the configured one, or a self-signed one that is created at the first start.

use std::fs::DirBuilder;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use stoa_controller::config::management::Https;

use super::trusted_file;
use crate::auth::tokens::{write_mode, write_whole};

/// Validity of a self-signed certificate, in years.
const YEARS: i32 = 10;

/// The files that the TLS configuration is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    /// Whether missing files are created.
    own: bool,
    /// Folders whose files are not trusted.
    of_ports: Vec<PathBuf>,
}

/// Modification time and size of the files: they change with the content.
pub type Stamp = Vec<Option<(SystemTime, u64)>>;

impl Files {
    /// The files of these settings; self-signed ones are in the state folder. The forwarder writes to the folders
    /// `of_ports`.
    pub fn of(https: &Https, state: &Path, of_ports: &[PathBuf]) -> Files {
        let own = state.join("https");
        let given = https.certificate.clone().zip(https.key.clone());
        let is_own = given.is_none();
        let (certificate, key) =
            given.unwrap_or_else(|| (own.join("certificate.pem"), own.join("key.pem")));
        let (client_ca, mut of_ports) = (https.client_ca.clone(), of_ports.to_vec());
        if is_own && client_ca.is_none() {
            // The state folder may be in one of them: a configuration names no file in a folder below.
            of_ports.retain(|folder| !own.starts_with(folder));
        }
        Files { certificate, key, client_ca, own: is_own, of_ports }
    }

    /// The current stamp of the files.
    pub fn stamp(&self) -> Stamp {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()];
        let stamp = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        };
        files.into_iter().flatten().map(stamp).collect()
    }

    /// Reads the files, after creating missing self-signed ones.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub fn read(&self, addresses: &[IpAddr]) -> Result<Arc<ServerConfig>, String> {
        if self.own && !(self.certificate.exists() && self.key.exists()) {
            self.make(addresses)?;
        }
        for path in [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()] {
            path.map_or(Ok(()), |path| trusted_file::check(path, &self.of_ports))?;
        }
        let because =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let chain = certificates(&self.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| because(&self.key, &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| because(path, &error))?;
                }
                let provider = Arc::new(default_provider());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|error| because(path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| because(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn make(&self, addresses: &[IpAddr]) -> Result<(), String> {
        let (certificate, key) = own_certificate(addresses).map_err(|error| error.to_string())?;
        let folder = self.certificate.parent().unwrap_or(Path::new("/"));
        let write = || {
            // The group of the router may read the certificate, never the key.
            DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
            write_whole(&self.key, key.as_bytes())?;
            // Clients read the certificate to verify the server.
            write_mode(&self.certificate, certificate.as_bytes(), 0o644)
        };
        write().map_err(|error| format!("{}: {error}", folder.display()))?;
        tracing::info!(certificate = %self.certificate.display(), "created a self-signed certificate");
        Ok(())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let because = |error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(because)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(because)?;
    if all.is_empty() {
        return Err(format!("{}: contains no certificate", path.display()));
    }
    Ok(all)
}

/// Certificate and key as PEM, for the host name of this machine and these addresses.
fn own_certificate(addresses: &[IpAddr]) -> Result<(String, String), rcgen::Error> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    names.extend(
        Some(crate::machine::name())
            .filter(|name| name != "localhost" && name.is_ascii() && !name.is_empty()),
    );
    let specific = addresses.iter().filter(|it| !it.is_unspecified() && !it.is_loopback());
    names.extend(specific.map(ToString::to_string));
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, "Stoa");
    params.distinguished_name = subject;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let year = 1970 + i32::try_from(seconds / 31_556_952).unwrap_or(0);
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + YEARS, 1, 1);
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The common name of a certificate.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    // A second common name makes the identity ambiguous.
    names.next().is_none().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_own_certificate_is_made_once_and_its_key_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::of(&Https::default(), folder.path(), &[]);
        files.read(&["192.0.2.1".parse().unwrap()]).unwrap();
        let stamp = files.stamp();
        files.read(&[]).unwrap();
        assert_eq!(files.stamp(), stamp, "the same files");
        let key = folder.path().join("https/key.pem");
        let mode = std::fs::metadata(key).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let chain = certificates(&files.certificate).unwrap();
        assert_eq!(common_name(&chain[0]).as_deref(), Some("Stoa"));
    }

    #[test]
    fn wrong_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrong.pem");
        std::fs::write(&path, "nothing").unwrap();
        let given = Some(path.clone());
        let https = Https { certificate: given.clone(), key: given, ..Https::default() };
        let error = Files::of(&https, folder.path(), &[]).read(&[]).unwrap_err();
        assert!(error.contains("wrong.pem"), "{error}");
        let https = Https { client_ca: Some(path), ..Https::default() };
        let error = Files::of(&https, folder.path(), &[]).read(&[]).unwrap_err();
        assert!(error.contains("wrong.pem: contains no certificate"), "{error}");
    }
}
