//! Sends every request in `docs/agent-api.md` and checks that the status code is the documented one.

use std::fs;
use std::path::Path;

use super::server::serve;

/// The method, path and body of a curl command. The contents of body files are blocks of the page.
fn request(line: &str, page: &str) -> (String, String, String) {
    let mut words = line.split_whitespace().skip(1);
    let (mut method, mut path, mut body) = ("GET".to_owned(), String::new(), String::new());
    while let Some(word) = words.next() {
        match word {
            "-s" => {}
            "--unix-socket" => assert_eq!(words.next(), Some("/run/pinfold/agent.sock")),
            "-X" => words.next().expect("a method").clone_into(&mut method),
            "--data-binary" => {
                let file = words.next().and_then(|word| word.strip_prefix('@'));
                body = shown(page, file.expect("a file"));
                "POST".clone_into(&mut method);
            }
            url => {
                let url = url.trim_matches('\'');
                url.strip_prefix("http://agent")
                    .expect("the host of the examples")
                    .clone_into(&mut path);
            }
        }
    }
    (method, path, body)
}

/// The content of a file that the page shows in a block below a comment with the file's name.
fn shown(page: &str, file: &str) -> String {
    let name = format!("# {file}\n");
    let (_, rest) = page.split_once(&name).expect("the page shows the file");
    rest[..rest.find("```").expect("the block ends")].to_owned()
}

#[test]
fn every_documented_request_has_the_documented_status() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent-api.md");
    let page = fs::read_to_string(page).expect("the page");
    let server = serve();
    let mut sent = 0;
    for line in page.lines().filter(|line| line.starts_with("curl ")) {
        let (line, expected) = line.split_once(" # ").expect("a status after each command");
        let (method, path, body) = request(line, &page);
        let (status, answer) = server.ask(&method, &path, &body);
        assert_eq!(status.to_string(), expected, "{line}: {answer}");
        sent += 1;
    }
    assert!(sent >= 9, "{sent}");
}
