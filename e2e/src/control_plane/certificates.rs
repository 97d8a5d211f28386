//! Certificates and keys for one run: an authority, the server, the administrator, and the key of service accounts.

use std::path::Path;
use std::process::Command;

use super::SERVICE_ADDRESS;
use crate::programs::succeed;

/// Makes all of them in a folder.
pub(super) fn make(folder: &Path) -> Result<(), String> {
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=e2e -keyout ca.key -out ca.crt",
    )?;
    openssl(folder, "genrsa -out accounts.key 2048")?;
    // 10.0.2.2 is this machine to its guests.
    let server = format!(
        "subjectAltName=IP:127.0.0.1,IP:10.0.2.2,IP:{SERVICE_ADDRESS},DNS:localhost\nextendedKeyUsage=serverAuth\n"
    );
    signed(folder, "server", "/CN=kube-apiserver", &server)?;
    signed(folder, "admin", "/O=system:masters/CN=admin", CLIENT)
}

/// What a certificate for clients is for.
pub(super) const CLIENT: &str = "extendedKeyUsage=clientAuth\n";
/// A key and a certificate of our authority: `NAME.key` and `NAME.crt`.
pub(super) fn signed(
    folder: &Path,
    name: &str,
    subject: &str,
    extensions: &str,
) -> Result<(), String> {
    super::write(&folder.join(format!("{name}.ext")), extensions)?;
    openssl(
        folder,
        &format!("req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr"),
    )?;
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile {name}.ext -out {name}.crt"
        ),
    )
}

fn openssl(folder: &Path, arguments: &str) -> Result<(), String> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder).args(arguments.split(' '));
    succeed(&mut openssl)
}
