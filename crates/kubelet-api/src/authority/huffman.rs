//! The Huffman code of HPACK (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and the first code of a
//! length follows the last code of the previous length. So the lengths determine the code.

/// The length of the longest code.
const LONGEST: usize = 30;

/// The end-of-string symbol, which must not occur in a string.
const END: usize = 256;

/// The code length of every symbol.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The symbols in the order of their codes, and the number of codes of each length.
struct HuffmanCode {
    symbols: [u16; 257],
    counts: [u32; LONGEST + 1],
}

const CODE: HuffmanCode = code();

/// Sorts the symbols by the lengths of their codes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "symbols are at most 256, and constants know no other conversion"
)]
const fn code() -> HuffmanCode {
    let mut symbols = [0; 257];
    let mut counts = [0; LONGEST + 1];
    let mut place = 0;
    let mut length = 1;
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol <= END {
            if LENGTHS[symbol] as usize == length {
                symbols[place] = symbol as u16;
                place += 1;
                counts[length] += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    HuffmanCode { symbols, counts }
}

/// Decodes a string. `None` if `bytes` are not valid code, or end with more than the padding of one byte.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(bytes.len().saturating_mul(8) / 5);
    // The bits of the current code, and the first code of their length.
    let (mut bits, mut length) = (0_u32, 0);
    let (mut first, mut place) = (0_u32, 0_u32);
    for byte in bytes {
        for shift in (0..8).rev() {
            bits = bits << 1 | u32::from(byte >> shift & 1);
            first <<= 1;
            length += 1;
            let count = *CODE.counts.get(length)?;
            let offset = bits.checked_sub(first)?;
            if offset < count {
                let found = usize::try_from(place + offset).ok()?;
                // The end-of-string symbol must not occur.
                text.push(u8::try_from(*CODE.symbols.get(found)?).ok()?);
                (bits, length, first, place) = (0, 0, 0, 0);
            } else {
                first += count;
                place += count;
            }
        }
    }
    // The rest pads the last byte with the first bits of the end-of-string symbol: ones.
    let is_padding = length < 8 && bits == (1 << length) - 1;
    is_padding.then_some(text)
}
