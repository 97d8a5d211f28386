//! Signs and colours of pods: the same pod has the same letter and colour in every picture.

/// The number of pods with a sign of their own.
pub const SIGNS: usize = 26;

/// The sign of the holder at `index`: `A` to `Z`, and `@` for all others.
#[must_use]
pub fn sign(index: usize) -> char {
    u8::try_from(index)
        .ok()
        .filter(|&index| usize::from(index) < SIGNS)
        .map_or('@', |index| char::from(b'A' + index))
}

/// The sign of a core of which the holder has only some threads.
#[must_use]
pub fn part_sign(index: usize) -> char {
    match sign(index) {
        '@' => '%',
        letter => letter.to_ascii_lowercase(),
    }
}

/// Colours that are distinguishable for people with red-green colour blindness.
const COLOURS: [(u8, &str); 12] = [
    (75, "#5fafff"),
    (214, "#ffaf00"),
    (78, "#5fd787"),
    (213, "#ff87ff"),
    (185, "#d7d75f"),
    (209, "#ff875f"),
    (80, "#5fd7d7"),
    (147, "#afafff"),
    (150, "#afd787"),
    (217, "#ffafaf"),
    (179, "#d7af5f"),
    (183, "#d7afff"),
];

/// The terminal colour (of 256) of the holder at `index`.
#[must_use]
pub fn ansi(index: usize) -> u8 {
    COLOURS[index % COLOURS.len()].0
}

/// The same colour for SVG.
#[must_use]
pub fn hex(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()].1
}
