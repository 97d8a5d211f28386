//! HTTPS with client certificates.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use super::cluster::{Extender, exchange, objects, pod};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/certificates")
        .join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap()
}

/// Sends a filter request over TLS, with or without a client certificate.
fn filter(extender: &Extender, with: Option<&str>) -> (u16, String) {
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.crt")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match with {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
            let chain = vec![certificate(&format!("{name}.crt"))];
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = "localhost".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = StreamOwned::new(client, TcpStream::connect(extender.address).unwrap());
    let args = json!({ "Pod": pod("small", 2), "NodeNames": ["a"] });
    exchange(stream, "POST", "/filter", args.to_string().as_bytes())
}

#[test]
fn with_a_client_ca_only_clients_with_a_certificate_are_served() {
    let extender = Extender::start_with(&objects(&["a"]), |config| {
        config.leader.elect = false;
        config.tls.certificate = Some(file("server.crt"));
        config.tls.key = Some(file("server.key"));
        config.tls.client_ca = Some(file("ca.crt"));
    });
    let extender = extender.ready();
    let (code, answer) = filter(&extender, Some("client"));
    assert_eq!(code, 200, "{answer}");
    assert_eq!(
        filter(&extender, None),
        (0, String::new()),
        "no certificate"
    );
    assert_eq!(
        filter(&extender, Some("server")),
        (0, String::new()),
        "not a client certificate"
    );
    let plain = extender.send("POST", "/filter", b"{}");
    assert_eq!(plain.0, 0, "plain HTTP");
    assert_eq!(
        filter(&extender, Some("client")).0,
        200,
        "other clients are not affected"
    );
}

#[test]
fn without_a_client_ca_all_clients_are_served() {
    let extender = Extender::start_with(&objects(&["a"]), |config| {
        config.leader.elect = false;
        config.tls.certificate = Some(file("server.crt"));
        config.tls.key = Some(file("server.key"));
    });
    let extender = extender.ready();
    assert_eq!(filter(&extender, None).0, 200);
}
