//! The page about the API speaks the truth: every request on it is sent, and answered as it says.

use std::fs;
use std::path::Path;

use crate::wire::serve;

/// What a line of curl sends: method, path and body. Bodies in files are those that the page shows.
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
                    .expect("our host")
                    .clone_into(&mut path);
            }
        }
    }
    (method, path, body)
}

/// The block of the page that shows a file, below a line with the file's name.
fn shown(page: &str, file: &str) -> String {
    let name = format!("# {file}\n");
    let (_, rest) = page.split_once(&name).expect("the page shows the file");
    rest[..rest.find("```").expect("the block ends")].to_owned()
}

#[test]
fn every_request_on_the_page_is_answered_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent-api.md");
    let page = fs::read_to_string(page).expect("the page");
    let served = serve();
    let mut sent = 0;
    for line in page.lines().filter(|line| line.starts_with("curl ")) {
        let (line, expected) = line.split_once(" # ").expect("the status behind each line");
        let (method, path, body) = request(line, &page);
        let (status, answer) = served.ask(&method, &path, &body);
        assert_eq!(status.to_string(), expected, "{line}: {answer}");
        sent += 1;
    }
    assert!(sent >= 9, "{sent}");
}
