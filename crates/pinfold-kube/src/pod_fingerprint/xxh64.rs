//! XXH64, the 64-bit hash of the xxHash family (its published specification, version 0.1.1).

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_5: u64 = 0x27D4_EB2F_1656_67C5;

/// The hash of `bytes`.
pub(super) fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let stripes = bytes.chunks_exact(32);
    let tail = stripes.remainder();
    let start = match bytes.len() >= 32 {
        true => converge(stripes, seed),
        false => seed.wrapping_add(PRIME_5),
    };
    avalanche(consume(tail, start.wrapping_add(bytes.len() as u64)))
}

/// Four lanes of eight bytes each, over all stripes of 32 bytes.
fn converge<'b>(stripes: impl Iterator<Item = &'b [u8]>, seed: u64) -> u64 {
    let mut lanes = [
        seed.wrapping_add(PRIME_1).wrapping_add(PRIME_2),
        seed.wrapping_add(PRIME_2),
        seed,
        seed.wrapping_sub(PRIME_1),
    ];
    for stripe in stripes {
        for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            *lane = round(*lane, little_endian(word));
        }
    }
    let rotated = lanes.iter().zip([1, 7, 12, 18]);
    let sum = rotated.fold(0_u64, |sum, (lane, by)| {
        sum.wrapping_add(lane.rotate_left(by))
    });
    lanes.iter().fold(sum, |sum, lane| {
        (sum ^ round(0, *lane))
            .wrapping_mul(PRIME_1)
            .wrapping_add(PRIME_4)
    })
}

/// The rest of less than 32 bytes.
fn consume(tail: &[u8], mut hash: u64) -> u64 {
    let words = tail.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        hash ^= round(0, little_endian(word));
        hash = hash.rotate_left(27).wrapping_mul(PRIME_1);
        hash = hash.wrapping_add(PRIME_4);
    }
    let halves = rest.chunks_exact(4);
    let rest = halves.remainder();
    for half in halves {
        hash ^= little_endian(half).wrapping_mul(PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(PRIME_2);
        hash = hash.wrapping_add(PRIME_3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash
}

fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

fn round(lane: u64, word: u64) -> u64 {
    let sum = lane.wrapping_add(word.wrapping_mul(PRIME_2));
    sum.rotate_left(31).wrapping_mul(PRIME_1)
}

fn little_endian(bytes: &[u8]) -> u64 {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |word, byte| (word << 8) | u64::from(*byte))
}
