//! TLS towards upstreams: the machine's certificates, with a built-in set where it has none.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::base::{Error, Process, Result};

/// A connector that trusts `SSL_CERT_FILE` and `SSL_CERT_DIR` if they are set, else the system's store, else the set
/// compiled in. Speaks HTTP/1.1 only.
///
/// # Errors
/// [`Kind::Config`](crate::base::Kind::Config) when certificates that the environment names cannot be used: falling back
/// would trust what its author did not ask for.
pub(super) fn connector(process: &Process) -> Result<TlsConnector> {
    let path = |name: &str| process.var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let (file, dir) = (path("SSL_CERT_FILE"), path("SSL_CERT_DIR"));
    let named = file.is_some() || dir.is_some();
    let loaded = match named {
        true => rustls_native_certs::load_certs_from_paths(file.as_deref(), dir.as_deref()),
        false => rustls_native_certs::load_native_certs(),
    };
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(loaded.certs);
    if usable == 0 && named {
        let error = super::misconfigured("SSL_CERT_FILE or SSL_CERT_DIR is set and holds no usable certificate");
        return Err(match loaded.errors.into_iter().next() {
            Some(cause) => error.caused_by(cause),
            None => error,
        });
    }
    if usable == 0 {
        tracing::info!("the system has no certificate store: the built-in one is used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| Error::internal("TLS cannot be set up").caused_by(source))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::Millis;

    #[test]
    fn a_named_bundle_must_hold() {
        let dir = tempfile::tempdir().expect("temp dir");
        let bundle = dir.path().join("empty.pem");
        std::fs::write(&bundle, "nothing").expect("writes");
        let env = [("SSL_CERT_FILE", bundle.to_str().expect("utf-8"))];
        let process = Process::fake(["lazy"], &env, Path::new("/"), Millis(0));
        assert!(connector(&process).is_err());
        connector(&Process::fake(["lazy"], &[], Path::new("/"), Millis(0))).expect("some store");
    }
}
