//! The files of the page, embedded in the program.

/// One file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    /// Its path in addresses.
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal, $file:literal, $type:ident;)*) => {
        /// Every file.
        pub(crate) const ALL: &[Asset] = &[
            $(Asset { path: $path, content_type: $type, content: include_bytes!(concat!("../static/", $file)) },)*
        ];
    };
}

assets! {
    "/", "index.html", HTML;
    "/page.css", "page.css", CSS;
    "/icon.svg", "icon.svg", SVG;
    "/main.js", "main.js", JS;
    "/dom.js", "dom.js", JS;
    "/picture.js", "picture.js", JS;
    "/link.js", "link.js", JS;
    "/playground.js", "playground.js", JS;
    "/decision.js", "decision.js", JS;
    "/editor.js", "editor.js", JS;
    "/node.js", "node.js", JS;
    "/timeline.js", "timeline.js", JS;
    "/cluster.js", "cluster.js", JS;
    "/heatmap.js", "heatmap.js", JS;
}

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.path == path)
}
