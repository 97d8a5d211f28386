use super::*;
use proptest::prelude::*;

fn rejection(text: &str) -> String {
    read("f.yaml", text.as_bytes()).expect_err(text).to_string()
}

#[test]
fn objects_are_read_in_order_with_their_positions() {
    let text = "# nothing\n---\napiVersion: v1\nkind: Pod\n---\n---\n# nothing\n---\n\
                apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n\
                - {apiVersion: v1, kind: Service}\n---\n{\"apiVersion\": \"v1\", \"kind\": \"Node\"}\n";
    let documents = read("f.yaml", text.as_bytes()).expect("four objects");
    let seen: Vec<_> = documents
        .iter()
        .map(|document| {
            let line = document.at().map(|at| at.line);
            (
                document.api_version(),
                document.kind(),
                document.path.as_str(),
                line,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("v1", "Pod", "", Some(3)),
            ("apps/v1", "Deployment", "items[0]", Some(12)),
            ("v1", "Service", "items[1]", Some(14)),
            ("v1", "Node", "", Some(16)),
        ]
    );
}

#[test]
fn a_file_that_is_not_yaml_is_rejected_with_the_position() {
    for (text, expected) in [
        (
            "a: [1, 2",
            "f.yaml:1:4: expected YAML: unclosed bracket '['",
        ),
        (
            "apiVersion: v1\n  kind: Pod",
            "f.yaml:2:7: expected YAML: mapping values are not allowed in this context",
        ),
        (
            "a: *y",
            "f.yaml:1:4: expected YAML: alias references unknown anchor",
        ),
        (
            "kind: Pod\nkind: Pod",
            "f.yaml:2:1: found the key \"kind\" twice in one mapping (keep one of them)",
        ),
        (
            "a: &x [*x]",
            "f.yaml:1:8: expected a plain manifest: an alias stands for a value that contains it",
        ),
    ] {
        assert_eq!(rejection(text), expected);
    }
}

#[test]
fn a_value_that_is_not_an_object_is_rejected() {
    for (text, expected) in [
        (
            "5",
            "f.yaml:1:1: expected a Kubernetes object with apiVersion and kind, found the number 5",
        ),
        (
            "apiVersion: v1\nKind: Pod",
            "f.yaml:1:1: kind: expected a kind such as Pod, found nothing (rename \"Kind\" to \"kind\")",
        ),
        (
            "apiVersion: 1\nkind: Pod",
            "f.yaml:1:13: apiVersion: expected an API version such as v1, found the number 1 \
             (put it in quotes: \"1\")",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: x",
            "f.yaml:3:8: items: expected a list of objects, found \"x\"",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items: [{apiVersion: v1}]\n",
            "f.yaml:6:11: items[0].items[0].kind: expected a kind such as Pod, found nothing (add the field \"kind\")",
        ),
        (
            "metadata: {name: {{ .Release.Name }}-web}",
            "f.yaml:1:18: expected YAML: a key must be a single word \
             (this looks like a Helm template: read the output of `helm template CHART`)",
        ),
    ] {
        assert_eq!(rejection(text), expected);
    }
}

#[test]
fn bytes_that_are_not_text_are_rejected() {
    let found = read("f.yaml", b"a: \xff")
        .expect_err("not UTF-8")
        .to_string();
    let expected = "f.yaml: expected UTF-8 text, found other bytes from byte 3 on (is this a YAML or JSON file?)";
    assert_eq!(found, expected);
}

#[test]
fn size_nesting_aliases_and_documents_are_limited() {
    let large = "#".repeat(MAX_BYTES + 1);
    assert_eq!(
        rejection(&large),
        "f.yaml: expected at most 8388608 bytes, found 8388609 (split the file)"
    );
    let depth = "expected a plain manifest: more than 64 levels of nesting";
    assert!(rejection(&"[".repeat(100)).ends_with(depth));
    let mut block: String = (0..100).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert!(rejection(&block).ends_with(depth));
    block = "--- 1\n".repeat(MAX_DOCUMENTS + 1);
    assert!(rejection(&block).ends_with("more than 4096 documents"));

    let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (next, last) in ('b'..='i').zip('a'..) {
        let list = vec![format!("*{last}"); 10].join(",");
        laughs.push_str(&format!("{next}: &{next} [{list}]\n"));
    }
    assert!(rejection(&laughs).ends_with("more than 20000 values in them"));
}

#[test]
fn scalars_are_read_as_kubectl_reads_them() {
    let text = "apiVersion: v1\nkind: X\na: 017\nb: 1.50\nc: 1e3\nd: 0x10\ne: yes\nf: ~\ng: \"017\"\n\
                h: 123456789012345678901234567890\ni: -5\nj: 5m\n1: one\ntrue: two\n";
    let documents = read("f", text.as_bytes()).expect("one object");
    let field = documents[0].root();
    let described: Vec<String> = field
        .members()
        .skip(2)
        .map(|(key, field)| {
            let mut report = DiagnosticReport::new("f");
            field.unexpected("x", &mut report);
            let found = report.finish(()).expect_err("one error").0.remove(0);
            match found.problem {
                DiagnosticKind::Unexpected { found, .. } => format!("{key}: {found}"),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(
        described,
        [
            "a: the number 15",
            "b: the number 1.5",
            "c: the number 1000",
            "d: the number 16",
            "e: the boolean true",
            "g: \"017\"",
            "h: the number 123456789012345680000000000000",
            "i: the number -5",
            "j: \"5m\"",
            "1: \"one\"",
            "true: \"two\"",
        ]
    );
}

#[test]
fn anchors_and_merges_are_expanded() {
    let text = "apiVersion: v1\nkind: Pod\nbase: &base {cpu: 1, memory: 1Gi}\nuse:\n  <<: *base\n  cpu: 2\n";
    let documents = read("f", text.as_bytes()).expect("one object");
    let used = documents[0].root().get("use").expect("merged");
    let mut report = DiagnosticReport::new("f");
    assert_eq!(
        used.get("cpu")
            .and_then(|cpu| cpu.integer("n", &mut report)),
        Some(2)
    );
    assert_eq!(used.get_text("memory", "m", &mut report), Some("1Gi"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read("f", &bytes);
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(words in prop::collection::vec(yaml_word(), 0..60)) {
        let _ = read("f", words.concat().as_bytes());
    }
}

fn yaml_word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "apiVersion: v1\n",
        "kind: Pod\n",
        "kind: List\n",
        "items:\n",
        "- ",
        "  ",
        "\n",
        "a: ",
        "b",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&x ",
        "*x",
        "<<: ",
        "--- ",
        "---\n",
        "...\n",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "? ",
        ": ",
        "#",
        "!!str ",
        "!!binary ",
        "!x ",
        "%YAML 1.2\n",
        "~",
        "1.5",
        "0x",
        "\t",
        "\u{feff}",
        "é",
    ])
}

#[test]
fn json_is_read_like_yaml_and_within_the_same_limits() {
    let text = r#"{"apiVersion": "v1", "kind": "Pod", "a": [1, -2, 1.5, 1e3, true, null, "yes"], "b": {"c": "017"}}"#;
    let of_json = |text: &str| Document::of_json("v1", "Pod", text);
    let of_text = read("f", text.as_bytes()).expect("an object");
    let sorted = |document: &Document| {
        let content = crate::json_value::JsonValue::from(&document.node);
        serde_json::to_value(&content).expect("JSON")
    };
    assert_eq!(
        sorted(&of_json(text).expect("an object")),
        sorted(&of_text[0])
    );
    let deep = format!(
        "{{\"a\":{}{{}}{}}}",
        "[".repeat(MAX_DEPTH),
        "]".repeat(MAX_DEPTH)
    );
    let words = of_json(&deep).expect_err("too deep").to_string();
    assert!(words.contains("levels of nesting"), "{words}");
    let many = serde_json::json!({ "a": vec![0; MAX_NODES] }).to_string();
    let words = of_json(&many).expect_err("too many").to_string();
    assert!(words.contains("more than 500000 values"), "{words}");
    for text in ["[]", "", "{", "{} {}", "null", "\u{0}"] {
        assert!(of_json(text).is_err(), "{text}");
    }
}

#[test]
fn of_a_repeated_json_key_the_last_value_counts_and_unused_fields_are_skipped() {
    let text = r#"{"kind": "Odd", "apiVersion": "v2", "metadata": {"managedFields": [{}], "name": "a", "namespace": "b"},
        "status": {"images": [1], "phase": "Running"}, "spec": 1, "spec": 2}"#;
    let read = Document::of_json("v1", "Pod", text).expect("an object");
    assert_eq!(
        (read.file(), read.api_version(), read.kind()),
        ("Pod b/a", "v2", "Pod")
    );
    let content = crate::json_value::JsonValue::from(&read.node).to_json();
    assert_eq!(
        content,
        r#"{"apiVersion":"v2","kind":"Odd","metadata":{"name":"a","namespace":"b"},"spec":2,"status":{"phase":"Running"}}"#
    );
}
