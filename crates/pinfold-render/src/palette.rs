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

/// The letters of the holder at `index` where there is room for several: `A` to `Z`, `AA`, `AB` and so on.
#[must_use]
pub fn letters(index: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = index;
    loop {
        letters.push(sign(rest % SIGNS));
        match rest / SIGNS {
            0 => break,
            more => rest = more - 1,
        }
    }
    letters.into_iter().rev().collect()
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

/// The colours of holders for SVG, repeated after the last one.
pub fn hex_colours() -> impl ExactSizeIterator<Item = &'static str> {
    COLOURS.iter().map(|colour| colour.1)
}

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn every_holder_has_letters_of_its_own() {
        for (index, expected) in [
            (0, "A"),
            (25, "Z"),
            (26, "AA"),
            (27, "AB"),
            (701, "ZZ"),
            (702, "AAA"),
        ] {
            assert_eq!(letters(index), expected);
        }
    }
}
