//! What the web page is answered: the playground, a cluster of 5,000 nodes, a journal of 100,000 entries; and how large
//! the page and these answers are.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_page::{ApiRequest, PageApi};
use serde_json::{Value, json};

use crate::case::{BenchCase, Group};
use crate::page_inputs;

const NODES: usize = 5000;
const ENTRIES: u64 = 100_000;
const PODS: usize = 200;
/// The most bytes of all files of the page.
const MOST_BYTES: u64 = 600 << 10;

/// Room for more pods than the default.
const CONFIG: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: \"0\"
maxPods: 250
";

/// A program that answers the page.
type Api = Arc<dyn PageApi>;

/// How many bytes something has, and how many it may have.
pub(crate) struct PageSize {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) most: Option<u64>,
}

/// One question of the page.
struct PageQuestion {
    name: &'static str,
    api: fn() -> Api,
    path: &'static str,
    query: &'static str,
    body: fn() -> Vec<u8>,
}

static QUESTIONS: [PageQuestion; 7] = [
    PageQuestion {
        name: "playground: 8 NUMA nodes and 200 pods",
        api: playground,
        path: "simulate",
        query: "",
        body: question,
    },
    PageQuestion {
        name: "playground: why one of 200 pods is where it is",
        api: playground,
        path: "explain",
        query: "",
        body: || explained(0),
    },
    PageQuestion {
        name: "playground: why the last of 200 pods is rejected",
        api: playground,
        path: "explain",
        query: "",
        body: || explained(PODS - 1),
    },
    PageQuestion {
        name: "cluster of 5,000 nodes: the map",
        api: cluster,
        path: "cluster",
        query: "",
        body: Vec::new,
    },
    PageQuestion {
        name: "cluster of 5,000 nodes: replicas of a pod shape",
        api: cluster,
        path: "capacity",
        query: "",
        body: shape,
    },
    PageQuestion {
        name: "timeline of 100,000 entries: all",
        api: journal,
        path: "timeline",
        query: "",
        body: Vec::new,
    },
    PageQuestion {
        name: "timeline of 100,000 entries: the picture at one",
        api: journal,
        path: "node",
        query: "entry=50000",
        body: Vec::new,
    },
];

pub(super) fn cases() -> Vec<BenchCase> {
    let cases = QUESTIONS.iter().map(|question| {
        let case = BenchCase::new(Group::Page, question.name.to_owned(), move || {
            let (api, body) = ((question.api)(), (question.body)());
            move || {
                black_box(question.answer(&api, &body));
            }
        });
        // The others prepare for seconds, which is too long to count their instructions.
        match question.path {
            "simulate" | "explain" => case.within_us(100_000.0),
            _ => case,
        }
    });
    cases.collect()
}

/// The size of the page's files and of its answers.
///
/// # Errors
/// If a question has no answer.
pub(crate) fn sizes() -> Result<Vec<PageSize>, String> {
    let mut sizes = vec![PageSize {
        name: "all files of the page",
        bytes: pinfold_page::embedded_bytes() as u64,
        most: Some(MOST_BYTES),
    }];
    for question in &QUESTIONS {
        let answer = question.answer(&(question.api)(), &(question.body)());
        sizes.push(PageSize {
            name: question.name,
            bytes: answer.len() as u64,
            most: None,
        });
    }
    Ok(sizes)
}

impl PageQuestion {
    fn answer(&self, api: &Api, body: &[u8]) -> Vec<u8> {
        let answer = api.answer(&ApiRequest {
            path: self.path,
            query: self.query,
            body,
        });
        assert_eq!(
            answer.status,
            200,
            "{}: {}",
            self.name,
            String::from_utf8_lossy(&answer.body)
        );
        answer.body
    }
}

fn playground() -> Api {
    Arc::new(pinfold_program::playground())
}

/// A folder for the input of a case, which is removed when the input is read.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pinfold-bench-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

fn cluster() -> Api {
    let folder = folder("cluster");
    let file = folder.join("cluster.json");
    fs::write(&file, page_inputs::nodes(NODES)).expect("room for a file");
    let page = kubectl_pinfold_program::cluster_page(file).expect("a valid cluster");
    fs::remove_dir_all(&folder).expect("our own folder");
    Arc::new(page)
}

fn journal() -> Api {
    let folder = folder("journal");
    let file = page_inputs::journal(&folder, ENTRIES).expect("a valid journal");
    let page = pinfold_program::journal_page(&file).expect("a valid journal");
    fs::remove_dir_all(&folder).expect("our own folder");
    Arc::new(page)
}

/// 200 pods with exclusive CPUs on a machine of 8 NUMA nodes, the last of which is too large.
fn question() -> Vec<u8> {
    value().to_string().into_bytes()
}

fn explained(add: usize) -> Vec<u8> {
    let question = json!({"question": value(), "add": add});
    question.to_string().into_bytes()
}

fn value() -> Value {
    let pods = (0..PODS).map(|number| {
        let cpus = if number + 1 == PODS {
            64
        } else {
            1 + number % 2
        };
        pod(&format!("pod-{number}"), cpus)
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>()});
    json!({
        "config": CONFIG,
        "machine": "2 sockets, 4 numa, 24 cores, smt2, mem=128Gi",
        "pods": [{"name": "pods.json", "text": list.to_string()}],
    })
}

fn shape() -> Vec<u8> {
    pod("shape", 4).to_string().into_bytes()
}

fn pod(name: &str, cpus: usize) -> Value {
    let amounts = json!({"cpu": cpus.to_string(), "memory": "256Mi"});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]},
    })
}
