//! Formats amounts of memory for people.

const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

/// `68719476736` as `64 GiB`; with one decimal if it is not whole.
#[must_use]
pub fn bytes(amount: u64) -> String {
    let Some((unit, size)) = UNITS.into_iter().find(|&(_, size)| amount >= size) else {
        return format!("{amount} B");
    };
    // Tenths, rounded to the nearest, in integers so that the output is the same on every machine.
    let tenths = (u128::from(amount) * 10 + u128::from(size) / 2) / u128::from(size);
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        part => format!("{}.{part} {unit}", tenths / 10),
    }
}

/// `free of total`, with a common unit written once.
#[must_use]
pub fn free_of(free: u64, total: u64) -> String {
    let (free, total) = (bytes(free), bytes(total));
    let unit = total.rsplit(' ').next().unwrap_or_default();
    match free.strip_suffix(unit) {
        Some(number) => format!("{number}of {total} free"),
        None => format!("{free} of {total} free"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_use_the_largest_unit_that_fits() {
        for (amount, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 20, "1 MiB"),
            (3 << 29, "1.5 GiB"),
            (64 << 30, "64 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(amount), text);
        }
    }

    #[test]
    fn a_unit_is_not_repeated() {
        assert_eq!(free_of(3 << 30, 4 << 30), "3 of 4 GiB free");
        assert_eq!(free_of(512 << 20, 4 << 30), "512 MiB of 4 GiB free");
    }
}
