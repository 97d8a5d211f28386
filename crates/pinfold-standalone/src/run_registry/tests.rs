use std::os::unix::fs::PermissionsExt;

use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;
use tempfile::TempDir;

use super::*;

const POLICY: RunPolicy = RunPolicy {
    topology: TopologyPolicy::BestEffort,
    scope: TopologyScope::Container,
    memory: false,
};

struct Scene {
    _parent: TempDir,
    folder: PathBuf,
    hardware: Hardware,
}

impl Scene {
    fn new(machine: &str) -> Self {
        let parent = tempfile::tempdir().expect("a folder");
        Self {
            folder: parent.path().join("pinfold"),
            _parent: parent,
            hardware: pinfold_hardware::open(machine).expect("a machine"),
        }
    }

    fn open(&self) -> RunRegistry {
        let mut registry = RunRegistry::open(&self.folder).expect("a registry");
        registry
            .adopt_machine(&self.hardware)
            .expect("the same machine");
        registry
    }

    fn file(&self) -> PathBuf {
        self.folder.join("runs.json")
    }

    /// Registers a run of `process` without confining it.
    fn add_run_of(&self, cpus: i64, process: Process) -> Option<RunPlacement> {
        let mut registry = self.open();
        let proposal = registry
            .propose(&whole(cpus), POLICY, "x")
            .expect("a proposal");
        let placement = proposal.placement()?;
        let run = Run {
            id: proposal.id,
            process,
            command: vec!["x".into()],
            policy: "best-effort".into(),
            placement: placement.clone(),
            confinement: Confinement::Affinity,
            pod: proposal.pod.clone(),
        };
        registry.add_run(run, &proposal).expect("written");
        Some(placement)
    }
}

fn whole(cpus: i64) -> RunRequest {
    RunRequest {
        cpus: Some(Quantity::from(cpus)),
        ..RunRequest::default()
    }
}

fn this_process() -> Process {
    Process::find(std::process::id()).expect("this process runs")
}

fn ended_process() -> Process {
    Process {
        started: 1,
        ..this_process()
    }
}

#[test]
fn live_runs_keep_their_cpus_and_ended_ones_release_them() {
    let scene = Scene::new("1 socket, 4 cores");
    let one = scene.add_run_of(2, this_process()).expect("room");
    assert!(one.exclusive_cpus);
    assert_eq!(
        scene.add_run_of(2, this_process()),
        None,
        "one CPU is reserved"
    );
    let two = scene.add_run_of(1, ended_process()).expect("room");
    assert!(one.cpus.is_disjoint(&two.cpus));
    let again = scene.add_run_of(1, ended_process()).expect("room again");
    assert_eq!(again.cpus, two.cpus);
    let registry = scene.open();
    let living: Vec<u64> = registry.runs().iter().map(|run| run.id).collect();
    assert_eq!(living, [1]);
}

#[test]
fn a_pipe_instead_of_the_registry_is_an_error_and_not_waited_for() {
    let scene = Scene::new("1 socket, 4 cores");
    drop(scene.open());
    let mode = rustix::fs::Mode::from(0o600);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, scene.file(), pipe, mode, 0).expect("a pipe");
    let problem = RunRegistry::open(&scene.folder).expect_err("a pipe");
    let expected = format!(
        "cannot open {}: it is not a regular file",
        scene.file().display()
    );
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn a_run_id_is_not_used_twice() {
    let scene = Scene::new("1 socket, 4 cores");
    for id in 1..=3 {
        let registry = scene.open();
        let proposal = registry
            .propose(&whole(1), POLICY, "x")
            .expect("a proposal");
        assert_eq!(proposal.id, id);
        drop(registry);
        scene.add_run_of(1, ended_process()).expect("room");
    }
}

#[test]
fn a_damaged_registry_is_left_alone_and_no_run_starts() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.add_run_of(2, this_process()).expect("room");
    let whole = fs::read_to_string(scene.file()).expect("the registry's file");
    let contradictory = whole.replacen("\"shared\"", "\"shred\"", 1);
    for damage in ["", "{", &whole[..whole.len() / 2], "[]", &contradictory] {
        fs::write(scene.file(), damage).expect("damage");
        let rejected = RunRegistry::open(&scene.folder).and_then(|mut registry| {
            registry.adopt_machine(&scene.hardware)?;
            registry.propose(&self::whole(1), POLICY, "x").map(drop)
        });
        let error = rejected.expect_err("rejected");
        assert!(
            matches!(error, StandaloneError::Damaged { .. }),
            "{damage:?}: {error}"
        );
        assert!(error.to_string().contains("mv "), "{error}");
        let left = fs::read_to_string(scene.file()).expect("the registry's file");
        assert_eq!(left, damage);
    }
}

#[test]
fn a_registry_of_a_later_version_is_not_touched() {
    let scene = Scene::new("1 socket, 4 cores");
    drop(scene.open());
    fs::write(scene.file(), r#"{"version": 2, "new": true}"#).expect("written");
    let error = RunRegistry::open(&scene.folder).expect_err("rejected");
    assert!(matches!(error, StandaloneError::Version { found: 2, .. }));
}

#[test]
fn runs_of_another_boot_are_removed() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.add_run_of(2, this_process()).expect("room");
    let text = fs::read_to_string(scene.file()).expect("the registry's file");
    let other = text.replacen(&boot(), "00000000-another-boot", 1);
    fs::write(scene.file(), other).expect("written");
    assert!(scene.open().runs().is_empty());
}

#[test]
fn live_runs_on_other_cpus_are_an_error() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.add_run_of(2, this_process()).expect("room");
    let other = pinfold_hardware::open("1 socket, 8 cores").expect("a machine");
    let mut registry = RunRegistry::open(&scene.folder).expect("a registry");
    let error = registry.adopt_machine(&other).expect_err("rejected");
    assert!(
        matches!(error, StandaloneError::OtherMachine { .. }),
        "{error}"
    );
}

#[test]
fn a_registry_without_runs_adopts_another_machine() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.add_run_of(2, ended_process()).expect("room");
    let mut registry = RunRegistry::open(&scene.folder).expect("a registry");
    let other = pinfold_hardware::open("1 socket, 8 cores").expect("a machine");
    registry.adopt_machine(&other).expect("nothing is held");
}

#[test]
fn the_folder_must_be_writable_by_this_user_only() {
    let scene = Scene::new("1 socket, 1 core");
    drop(scene.open());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&scene.folder), 0o700);
    scene.add_run_of(1, ended_process());
    scene.add_run_of(0, ended_process());
    assert_eq!(mode(&scene.folder.join("lock")), 0o600);
    fs::set_permissions(&scene.folder, fs::Permissions::from_mode(0o777)).expect("opened");
    let error = RunRegistry::open(&scene.folder).expect_err("rejected");
    assert!(
        matches!(error, StandaloneError::UnsafeFolder { .. }),
        "{error}"
    );
}

#[test]
fn the_only_cpu_is_shared_and_never_exclusive() {
    let scene = Scene::new("1 socket, 1 core");
    assert_eq!(scene.add_run_of(1, this_process()), None);
    let registry = scene.open();
    let proposal = registry
        .propose(&RunRequest::default(), POLICY, "x")
        .expect("a proposal");
    let placement = proposal.placement().expect("the shared pool");
    assert!(!placement.exclusive_cpus);
    assert_eq!(placement.cpus.len(), 1);
}
