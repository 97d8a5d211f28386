//! [`TlsListener`]: HTTPS with the extender's certificate, and client certificates if a client CA is configured.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_daemon::http::{HttpVersion, Listener};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::TlsConfig;

/// Errors of the TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or parsed.
    #[error("{}: expected {expected}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The problem.
        problem: String,
    },
    /// The certificate, key and client CA cannot be used together.
    #[error("tls: {0}")]
    Setup(String),
}

/// Accepts TLS connections.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

/// The ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";

impl TlsListener {
    /// Accepts the connections of `tcp` with TLS.
    #[must_use]
    pub fn new(tcp: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self {
            tcp,
            acceptor: TlsAcceptor::from(config),
        }
    }
}

impl Listener for TlsListener {
    type Raw = TcpStream;
    type Stream = TlsStream<TcpStream>;

    async fn accept_raw(&self) -> io::Result<TcpStream> {
        self.tcp.accept_raw().await
    }

    async fn handshake(&self, raw: TcpStream) -> io::Result<Self::Stream> {
        self.acceptor.accept(raw).await
    }

    fn http_version(stream: &Self::Stream) -> HttpVersion {
        match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => HttpVersion::Http2,
            _ => HttpVersion::Http1,
        }
    }
}

/// Reads the certificate, key and client CA files; `None` for plain HTTP.
///
/// # Errors
/// If a file cannot be used.
pub fn server_config(tls: &TlsConfig) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else {
        return Ok(None);
    };
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::File {
        path: key.clone(),
        expected: "a private key in PEM",
        problem: error.to_string(),
    })?;
    let setup = |error: &dyn std::fmt::Display| TlsError::Setup(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| setup(&error))?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| setup(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .map_err(|error| setup(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| setup(&error))?;
    // kube-scheduler binds many pods concurrently, but keeps at most two HTTP/1.1 connections.
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file = |problem: String| TlsError::File {
        path: path.to_owned(),
        expected: "certificates in PEM",
        problem,
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| file(error.to_string()))?;
    let found: Result<Vec<_>, _> = read.collect();
    let found = found.map_err(|error| file(error.to_string()))?;
    match found.is_empty() {
        true => Err(file("no certificate in the file".to_owned())),
        false => Ok(found),
    }
}
