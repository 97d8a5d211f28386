//! [`Canvas`]: rectangles and texts as SVG elements, with all input escaped.

use std::fmt::Write;

use crate::palette;

/// SVG elements in the order in which they are painted.
#[derive(Clone, Debug, Default)]
pub(super) struct Canvas(String);

/// The colour of a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// A class of the style sheet.
    Class(&'static str),
    /// The colour of the holder with this index.
    Pod(usize),
}

impl From<&'static str> for Fill {
    fn from(class: &'static str) -> Self {
        Self::Class(class)
    }
}

/// The fonts of a picture. All are monospaced, so that the width of a text is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Font {
    /// The title of the picture.
    Title,
    /// The headings of boxes.
    Bold,
    /// Names and amounts.
    Small,
    /// Letters of pods.
    Letter,
    /// Numbers of CPUs.
    Number,
    /// Numbers of cores and caches.
    Tiny,
}

impl Font {
    fn size(self) -> usize {
        match self {
            Self::Title => 15,
            Self::Bold => 12,
            Self::Small => 11,
            Self::Letter | Self::Number => 9,
            Self::Tiny => 8,
        }
    }

    fn is_bold(self) -> bool {
        matches!(self, Self::Title | Self::Bold | Self::Letter)
    }

    /// The width of a text: a letter is three fifths as wide as the font is high.
    pub(super) fn width(self, text: &str) -> usize {
        (text.chars().count() * self.size() * 3).div_ceil(5)
    }

    /// The text, shortened with an ellipsis to this width.
    pub(super) fn fit(self, text: &str, width: usize) -> String {
        if self.width(text) <= width {
            return text.to_owned();
        }
        let letters = (width * 5 / (self.size() * 3)).saturating_sub(1);
        text.chars().take(letters).chain(['…']).collect()
    }
}

impl Canvas {
    /// A rectangle; `title` is the tooltip. The rectangles of a pod have its index as `data-pod`, for pages that respond to
    /// clicks.
    pub(super) fn rect(
        &mut self,
        (x, y): (usize, usize),
        (width, height): (usize, usize),
        fill: impl Into<Fill>,
        title: Option<&str>,
    ) {
        let class = match fill.into() {
            Fill::Class(class @ ("s" | "n")) => format!(" rx=\"5\" class=\"{class}\""),
            Fill::Class(class) => format!(" class=\"{class}\""),
            Fill::Pod(holder) => {
                let colour = holder % palette::hex_colours().len();
                format!(" class=\"p{colour}\" data-pod=\"{holder}\"")
            }
        };
        let _ = write!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{class}"
        );
        let _ = match title {
            Some(title) => writeln!(self.0, "><title>{}</title></rect>", escape(title)),
            None => writeln!(self.0, "/>"),
        };
    }

    /// A text that begins at this point of its baseline.
    pub(super) fn text(&mut self, at: (usize, usize), font: Font, class: &str, text: &str) {
        self.write(at, font, class, "", text);
    }

    /// A text that ends at this point of its baseline.
    pub(super) fn text_end(&mut self, at: (usize, usize), font: Font, class: &str, text: &str) {
        self.write(at, font, class, " text-anchor=\"end\"", text);
    }

    /// A text around this point of its baseline.
    pub(super) fn text_middle(&mut self, at: (usize, usize), font: Font, class: &str, text: &str) {
        self.write(at, font, class, " text-anchor=\"middle\"", text);
    }

    /// Another canvas with its origin at this point.
    pub(super) fn group(&mut self, (x, y): (usize, usize), content: &Canvas) {
        let _ = writeln!(
            self.0,
            "<g transform=\"translate({x} {y})\">\n{}</g>",
            content.0
        );
    }

    fn write(&mut self, (x, y): (usize, usize), font: Font, class: &str, anchor: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let weight = match font.is_bold() {
            true => " font-weight=\"bold\"",
            false => "",
        };
        let _ = writeln!(
            self.0,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{weight}{anchor} class=\"{class}\">{}</text>",
            font.size(),
            escape(text)
        );
    }

    /// The elements as text.
    pub(super) fn elements(&self) -> &str {
        &self.0
    }
}

/// Escapes text so that it cannot break out of an element or attribute; control characters, which XML cannot represent,
/// become the replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_names_are_escaped() {
        assert_eq!(
            escape("</title><script>\"'&\u{1}"),
            "&lt;/title&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}"
        );
    }

    #[test]
    fn a_long_text_is_shortened_to_its_width() {
        assert_eq!(Font::Bold.fit("0123456789", 80), "0123456789");
        let short = Font::Bold.fit("0123456789", 40);
        assert_eq!(short, "0123…");
        assert!(Font::Bold.width(&short) <= 40);
    }
}
