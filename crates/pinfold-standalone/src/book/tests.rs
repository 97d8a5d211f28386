use std::os::unix::fs::PermissionsExt;

use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;
use tempfile::TempDir;

use super::*;

const POLICY: Policy = Policy {
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

    fn open(&self) -> Book {
        let mut book = Book::open(&self.folder).expect("a book");
        book.settle(&self.hardware).expect("the same machine");
        book
    }

    fn file(&self) -> PathBuf {
        self.folder.join("runs.json")
    }

    /// Writes down a run of `process`, held by nothing but its word.
    fn enter(&self, cpus: i64, process: Process) -> Option<Placement> {
        let mut book = self.open();
        let proposal = book.propose(&whole(cpus), POLICY, "x").expect("a proposal");
        let placement = proposal.placement()?;
        let run = Run {
            id: proposal.id,
            process,
            command: vec!["x".into()],
            policy: "best-effort".into(),
            placement: placement.clone(),
            hold: Hold::Affinity,
            pod: proposal.pod.clone(),
        };
        book.write_down(run, &proposal).expect("written");
        Some(placement)
    }
}

fn whole(cpus: i64) -> Request {
    Request {
        cpus: Some(Quantity::from(cpus)),
        ..Request::default()
    }
}

fn this() -> Process {
    Process::find(std::process::id()).expect("this process runs")
}

fn gone() -> Process {
    Process {
        started: 1,
        ..this()
    }
}

#[test]
fn living_runs_keep_their_cpus_and_dead_ones_give_them_back() {
    let scene = Scene::new("1 socket, 4 cores");
    let one = scene.enter(2, this()).expect("room");
    assert!(one.own_cpus);
    assert_eq!(scene.enter(2, this()), None, "one CPU is reserved");
    let two = scene.enter(1, gone()).expect("room");
    assert!(one.cpus.is_disjoint(&two.cpus));
    let again = scene.enter(1, gone()).expect("room again");
    assert_eq!(again.cpus, two.cpus);
    let book = scene.open();
    let living: Vec<u64> = book.runs().iter().map(|run| run.id).collect();
    assert_eq!(living, [1]);
}

#[test]
fn a_number_is_not_used_twice() {
    let scene = Scene::new("1 socket, 4 cores");
    for id in 1..=3 {
        let book = scene.open();
        let proposal = book.propose(&whole(1), POLICY, "x").expect("a proposal");
        assert_eq!(proposal.id, id);
        drop(book);
        scene.enter(1, gone()).expect("room");
    }
}

#[test]
fn a_damaged_book_is_left_alone_and_nothing_is_handed_out() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.enter(2, this()).expect("room");
    let whole = fs::read_to_string(scene.file()).expect("the book");
    let contradictory = whole.replacen("\"shared\"", "\"shred\"", 1);
    for damage in ["", "{", &whole[..whole.len() / 2], "[]", &contradictory] {
        fs::write(scene.file(), damage).expect("damage");
        let rejected = Book::open(&scene.folder).and_then(|mut book| {
            book.settle(&scene.hardware)?;
            book.propose(&self::whole(1), POLICY, "x").map(drop)
        });
        let error = rejected.expect_err("rejected");
        assert!(
            matches!(error, StandaloneError::Damaged { .. }),
            "{damage:?}: {error}"
        );
        assert!(error.to_string().contains("mv "), "{error}");
        let left = fs::read_to_string(scene.file()).expect("the book");
        assert_eq!(left, damage);
    }
}

#[test]
fn a_book_of_a_later_version_is_not_touched() {
    let scene = Scene::new("1 socket, 4 cores");
    drop(scene.open());
    fs::write(scene.file(), r#"{"version": 2, "new": true}"#).expect("written");
    let error = Book::open(&scene.folder).expect_err("rejected");
    assert!(matches!(error, StandaloneError::Version { found: 2, .. }));
}

#[test]
fn runs_of_another_boot_are_gone() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.enter(2, this()).expect("room");
    let text = fs::read_to_string(scene.file()).expect("the book");
    let other = text.replacen(&boot(), "00000000-another-boot", 1);
    fs::write(scene.file(), other).expect("written");
    assert!(scene.open().runs().is_empty());
}

#[test]
fn runs_on_other_cpus_are_not_mixed_with_ours() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.enter(2, this()).expect("room");
    let other = pinfold_hardware::open("1 socket, 8 cores").expect("a machine");
    let mut book = Book::open(&scene.folder).expect("a book");
    let error = book.settle(&other).expect_err("rejected");
    assert!(
        matches!(error, StandaloneError::OtherMachine { .. }),
        "{error}"
    );
}

#[test]
fn an_empty_book_takes_over_another_machine() {
    let scene = Scene::new("1 socket, 4 cores");
    scene.enter(2, gone()).expect("room");
    let mut book = Book::open(&scene.folder).expect("a book");
    let other = pinfold_hardware::open("1 socket, 8 cores").expect("a machine");
    book.settle(&other).expect("nothing is held");
}

#[test]
fn the_folder_must_be_ours_alone() {
    let scene = Scene::new("1 socket, 1 core");
    drop(scene.open());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&scene.folder), 0o700);
    scene.enter(1, gone());
    scene.enter(0, gone());
    assert_eq!(mode(&scene.folder.join("lock")), 0o600);
    fs::set_permissions(&scene.folder, fs::Permissions::from_mode(0o777)).expect("opened");
    let error = Book::open(&scene.folder).expect_err("rejected");
    assert!(
        matches!(error, StandaloneError::UnsafeFolder { .. }),
        "{error}"
    );
}

#[test]
fn a_single_cpu_is_shared_and_never_handed_out() {
    let scene = Scene::new("1 socket, 1 core");
    assert_eq!(scene.enter(1, this()), None);
    let book = scene.open();
    let proposal = book
        .propose(&Request::default(), POLICY, "x")
        .expect("a proposal");
    let placement = proposal.placement().expect("the shared pool");
    assert!(!placement.own_cpus);
    assert_eq!(placement.cpus.len(), 1);
}
