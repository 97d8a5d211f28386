//! [`Helm`]: the program, built once from its sources, and the commands of it that are used here.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{NAMESPACE, chart};
use crate::programs::{self, succeed};
use crate::report::say;

/// The versions of everything.
const MODULES: &str = include_str!("../../helm/go.mod");
/// The version of Kubernetes to render for without a server.
const KUBERNETES: &str = "v1.36.0";
/// The name of the release.
const RELEASE: &str = "pinfold";

/// The program, and the cluster it works on.
pub(crate) struct Helm {
    pub(crate) program: PathBuf,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Builds it, if it is not there yet.
    pub(crate) fn build() -> Result<Self, String> {
        let mut versions = DefaultHasher::new();
        MODULES.hash(&mut versions);
        let folder = programs::tools().join(format!("helm-{:016x}", versions.finish()));
        let program = folder.join("helm");
        if !program.exists() {
            say("building helm");
            let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm");
            let mut build = Command::new("go");
            build
                .current_dir(modules)
                .args(["build", "-o"])
                .arg(&program)
                .arg("helm.sh/helm/v3/cmd/helm")
                .env("CGO_ENABLED", "0");
            succeed(&mut build)?;
        }
        Ok(Self {
            program,
            kubeconfig: None,
        })
    }

    /// The same for a cluster.
    pub(super) fn on(self, kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..self
        }
    }

    /// Looks for faults, warnings among them.
    pub(super) fn lint(&self) -> Result<String, String> {
        let chart = chart().display().to_string();
        self.run(
            &[
                "lint",
                "--strict",
                "--quiet",
                "--kube-version",
                KUBERNETES,
                &chart,
            ],
            &[],
        )
    }

    /// The objects as text.
    pub(super) fn template(&self, flags: &[String]) -> Result<String, String> {
        let chart = chart().display().to_string();
        let words = ["template", RELEASE, &chart, "--include-crds"];
        let mut all = vec!["--kube-version".to_owned(), KUBERNETES.to_owned()];
        all.extend_from_slice(flags);
        self.run(&words, &all)
    }

    /// Installs it.
    pub(super) fn install(&self, flags: &[String]) -> Result<String, String> {
        let chart = chart().display().to_string();
        self.run(&["install", RELEASE, &chart, "--create-namespace"], flags)
    }

    /// Changes what is installed to these values.
    pub(super) fn upgrade(&self, flags: &[String]) -> Result<String, String> {
        let chart = chart().display().to_string();
        self.run(&["upgrade", RELEASE, &chart, "--reset-values"], flags)
    }

    /// Takes it away.
    pub(super) fn uninstall(&self) -> Result<String, String> {
        self.run(&["uninstall", RELEASE], &[])
    }

    fn run(&self, words: &[&str], flags: &[String]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.args(words).args(flags);
        command.args(["--namespace", NAMESPACE]);
        // Without the settings of the user.
        let home =
            std::env::temp_dir().join(format!("pinfold-e2e-helm-home-{}", std::process::id()));
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, &home);
        }
        command.env_remove("KUBECONFIG");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        // Links between files of the repository are meant.
        let errors: Vec<&str> = errors
            .lines()
            .filter(|line| !line.contains("symbolic link"))
            .collect();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("helm {}: {}", words.join(" "), errors.join("\n"))),
        }
    }
}
