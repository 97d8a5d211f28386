//! Files, directories and pipes as people have them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::{Run, picture, run, scratch, words};

const MACHINE: &str = "--machine '2 sockets, 4 cores'";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, resources: {limits: \
                   {cpu: 1, memory: 1Gi}}}]}\n";

fn pod(name: &str) -> String {
    POD.replace("NAME", name)
}

/// A new empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(scratch()).join(format!("input-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("writable");
    folder
}

fn simulate(folder: &Path, line: &str) -> Run {
    run(folder, &words(&format!("simulate {MACHINE} {line}")))
}

/// Runs the program with this standard input.
fn pipe(line: &str, input: &[u8]) -> Run {
    let mut child = Command::new(crate::PROGRAM)
        .args(words(line))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    Run::from(child.wait_with_output().expect("it ends"))
}

fn zipped(text: &str) -> Vec<u8> {
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(text.as_bytes()).expect("memory");
    zip.finish().expect("memory")
}

#[test]
fn directories_give_their_manifests_and_with_recursion_those_below() {
    let folder = folder("directories");
    fs::create_dir_all(folder.join("all/below")).expect("writable");
    for (file, text) in [
        ("all/a.yaml", pod("a")),
        ("all/b.json.gz", String::new()),
        ("all/empty.yml", "# nothing\n".to_owned()),
        ("all/notes.txt", "no manifest".to_owned()),
        ("all/below/c.yml", pod("c")),
        ("d.yaml", pod("d")),
    ] {
        fs::write(folder.join(file), text).expect("writable");
    }
    fs::write(folder.join("all/b.json.gz"), zipped(&pod("b"))).expect("writable");
    symlink(folder.join("all"), folder.join("all/below/loop")).expect("writable");
    for (line, admitted) in [
        ("all", "2 pods admitted"),
        ("-f all", "2 pods admitted"),
        ("-R -f all", "3 pods admitted"),
        ("d.yaml -f all -R", "4 pods admitted"),
    ] {
        let run = simulate(&folder, line);
        assert_eq!(run.code, 0, "{line}: {}", run.output());
        assert!(run.stdout.contains(admitted), "{line}: {}", run.stdout);
    }
    fs::create_dir_all(folder.join("none")).expect("writable");
    let run = simulate(&folder, "none");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("expected *.yaml, *.yml or *.json files"),
        "{}",
        run.stderr
    );
}

#[test]
fn pipes_may_be_compressed_and_must_not_be_empty() {
    let line = format!("simulate {MACHINE} -");
    let run = pipe(&line, &zipped(&pod("a")));
    assert!(run.stdout.contains("1 pod admitted"), "{}", run.output());
    for line in [&line, &format!("explain {MACHINE} -f -")] {
        let run = pipe(line, b"\n");
        assert_eq!(run.code, 2, "{}", run.output());
        assert_eq!(
            run.stderr,
            "pinfold: standard input: expected Kubernetes objects such as a Pod or a Deployment, found nothing\n"
        );
    }
}

#[test]
fn objects_without_pods_are_counted_in_one_line() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: s}\n";
    let text = format!("{service}---\n{}---\n{route}---\n{service}", pod("a"));
    let run = pipe(&format!("simulate {MACHINE} -"), text.as_bytes());
    assert_eq!(run.code, 0);
    assert_eq!(
        run.stderr,
        "ignored 3 objects without pod templates: 2 Service, 1 HTTPRoute\n"
    );
}

#[test]
fn no_escape_sequence_of_a_file_reaches_the_terminal() {
    let folder = folder("escapes");
    let annotated = pod("a").replace("{name: c,", "{name: c, \"x\\e[2J\": 1,");
    fs::write(folder.join("pod.yaml"), annotated).expect("writable");
    fs::write(folder.join("name.yaml"), pod("\"a\\e[31m\"")).expect("writable");
    fs::write(
        folder.join("m.machine"),
        "# red \u{1b}[31m server\n2 sockets, 4 cores\n",
    )
    .expect("writable");
    for line in [
        format!("simulate {MACHINE} --color always pod.yaml"),
        format!("simulate {MACHINE} name.yaml"),
        "topology --machine m.machine".to_owned(),
        "topology --machine m.machine -o json".to_owned(),
        "topology --machine 'a\u{1b}[2Jb'".to_owned(),
    ] {
        let run = run(&folder, &words(&line));
        for bad in ["\u{1b}[2J", "\u{1b}[31m server", "a\u{1b}"] {
            assert!(!run.output().contains(bad), "{line}: {:?}", run.output());
        }
    }
}

#[test]
fn colours_are_chosen_by_the_flag() {
    let folder = folder("colours");
    fs::write(folder.join("pod.yaml"), pod("a")).expect("writable");
    let coloured = simulate(&folder, "--color always pod.yaml").stdout;
    assert!(coloured.contains("\u{1b}[1m"), "{coloured:?}");
    for line in ["--color never pod.yaml", "--color auto pod.yaml"] {
        assert!(!simulate(&folder, line).stdout.contains('\u{1b}'), "{line}");
    }
}

#[test]
fn the_demo_draws_into_a_new_private_folder() {
    let folder = folder("demo");
    let (first, second) = (run(&folder, &["demo"]), run(&folder, &["demo"]));
    assert_ne!(picture(&first), picture(&second));
    let parent = picture(&first).parent().expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(parent).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn comparing_policies_under_a_scheduler_is_an_error() {
    let folder = folder("compare");
    fs::write(folder.join("pod.yaml"), pod("a")).expect("writable");
    let run = simulate(&folder, "--compare --as volcano pod.yaml");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("--compare simulates one node"),
        "{}",
        run.stderr
    );
}

#[test]
fn explain_says_why_a_container_has_shared_cpus() {
    let examples = crate::program::root().join("examples/helm-chart");
    let line = format!("explain {MACHINE} web.yaml -o json");
    let run = run(&examples, &words(&line));
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(answer["cpus"]["qos"], "Burstable");
    assert_eq!(
        answer["cpus"]["qos_reason"]["noLimit"]["container"],
        "istio-proxy"
    );
    let nginx = &answer["cpus"]["containers"][0];
    assert_eq!(nginx["shared"], "notGuaranteed");
    assert_eq!(nginx["change"][0]["container"], "istio-proxy");
}

#[test]
fn comments_alone_are_an_empty_file() {
    for text in ["# nothing\n---\n# here\n", "null\n", "---\n...\n"] {
        let run = pipe(&format!("simulate {MACHINE} -"), text.as_bytes());
        assert_eq!(run.code, 2, "{text}: {}", run.output());
        assert!(run.stderr.contains("found nothing"), "{}", run.stderr);
    }
}

#[test]
fn small_files_are_read_as_large_ones_are() {
    let json = |name: &str| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}},\
             \"spec\":{{\"containers\":[{{\"name\":\"c\"}}]}}}}\n"
        )
    };
    let stream = json("a") + &json("b");
    let list = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c}]}\n\
                - metadata: {name: b}\n  spec: {containers: [{name: c}]}\n";
    for text in [stream.as_str(), list] {
        let run = pipe(&format!("simulate {MACHINE} -"), text.as_bytes());
        assert!(run.stdout.contains("2 pods admitted"), "{}", run.output());
    }
    let broken = pipe(
        &format!("simulate {MACHINE} -"),
        (json("a") + "{").as_bytes(),
    );
    assert_eq!(broken.code, 2, "{}", broken.output());
}

#[test]
fn a_file_in_utf_16_is_named_as_such() {
    let text: Vec<u8> = "\u{feff}kind: Pod\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let run = pipe(&format!("simulate {MACHINE} -"), &text);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("this is UTF-16"), "{}", run.stderr);
}

#[test]
fn fields_that_the_api_server_rejects_are_errors_unless_it_created_the_pod() {
    for (field, expected) in [
        ("tolerations: all", "spec.tolerations"),
        (
            "tolerations: [{key: a, operator: Maybe}]",
            "Unsupported value: \"Maybe\"",
        ),
        ("nodeSelector: {zone: [a]}", "spec.nodeSelector"),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
             [{matchExpressions: [{key: a, operator: Like}]}]}}}",
            "Unsupported value: \"Like\"",
        ),
    ] {
        let text = pod("a").replace("spec: {", &format!("spec: {{{field}, "));
        let line = format!("simulate {MACHINE} -");
        let run = pipe(&line, text.as_bytes());
        assert_eq!(run.code, 2, "{field}: {}", run.output());
        assert!(run.stderr.contains(expected), "{field}: {}", run.stderr);
        let created = text.replace("{name: a}", "{name: a, uid: u}");
        assert_eq!(pipe(&line, created.as_bytes()).code, 0, "{field}");
    }
}

#[test]
fn what_the_api_server_adds_to_a_pod_is_named_as_not_simulated() {
    let class = pod("a").replace("spec: {", "spec: {runtimeClassName: kata, ");
    let claims = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {template: {spec: {containers: \
                  [{name: c}]}}, volumeClaimTemplates: [{metadata: {name: d}}]}\n";
    for (text, expected) in [
        (
            class.as_str(),
            "not simulated: the overhead of the runtime class of a",
        ),
        (claims, "not simulated: volume claims of db-0"),
    ] {
        let run = pipe(&format!("simulate {MACHINE} -"), text.as_bytes());
        assert!(run.stdout.contains(expected), "{}", run.output());
    }
    let known = class.replace(
        "runtimeClassName",
        "overhead: {cpu: 100m}, runtimeClassName",
    );
    let run = pipe(&format!("simulate {MACHINE} -"), known.as_bytes());
    assert!(!run.stdout.contains("not simulated"), "{}", run.stdout);
}
