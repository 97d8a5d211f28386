use super::*;

#[test]
fn probe() {
    for text in [
        "a: b",
        "apiVersion: v1\nkind: Pod\n",
        "apiVersion: v1\nkind: Pod\nkind: X\n",
        "apiVersion: v1\n  kind: Pod\n",
        "---\n# c\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n- 5\n",
        "a: [1, 2",
        "a: &x [*x]",
        "a: *y",
        "a: \"x",
        "\ta: b",
        "a: b: c",
        "- ? [a]\n  : b\n",
        "apiVersion: v1\nkind: Pod\nx: 017\ny: 1.50\nz: 1e3\nw: 0x10\nv: 123456789012345678901234567890\nu: .inf\n",
        "apiVersion: v1\nkind: Pod\n? [a]\n: b\n",
    ] {
        match read("f.yaml", text.as_bytes()) {
            Ok(docs) => println!("{text:?}\n   {docs:?}"),
            Err(e) => println!("{text:?}\n   {e}"),
        }
    }
    let deep = "[".repeat(100);
    println!("{}", read("f", deep.as_bytes()).unwrap_err());
    let deep = (0..100)
        .map(|i| format!("{}a:\n", " ".repeat(i)))
        .collect::<String>();
    println!("{}", read("f", deep.as_bytes()).unwrap_err());
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &"bcdefgh"
            .chars()
            .scan('a', |p, c| {
                let q = *p;
                *p = c;
                Some(format!(
                    "{c}: &{c} [{}]\n",
                    vec![format!("*{q}"); 10].join(",")
                ))
            })
            .collect::<String>();
    println!("{}", read("f", bomb.as_bytes()).unwrap_err());
}
