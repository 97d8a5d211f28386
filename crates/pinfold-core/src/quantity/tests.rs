//! Comparison with what Go prints for the same text, and the laws of the arithmetic.

use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

/// Text, and what k8s.io/apimachinery v0.36.4 makes of it: canonical form, value, thousandths, integer.
#[rustfmt::skip]
const TABLE: &[(&str, &str, i64, i64, Option<i64>)] = &[
    ("0", "0", 0, 0, Some(0)),
    ("1", "1", 1, 1000, Some(1)),
    ("-1", "-1", -1, -1000, Some(-1)),
    ("+5", "5", 5, 5000, Some(5)),
    ("05", "5", 5, 5000, Some(5)),
    ("1.500", "1500m", 2, 1500, None),
    ("1.", "1", 1, 1000, Some(1)),
    (".5", "500m", 1, 500, None),
    (".", "0", 0, 0, Some(0)),
    ("+", "0", 0, 0, Some(0)),
    ("m", "0", 0, 0, None),
    ("Ki", "0", 0, 0, Some(0)),
    ("0Ei", "0", 0, 0, None),
    ("Ti", "0", 0, 0, Some(0)),
    ("1500m", "1500m", 2, 1500, None),
    ("100u", "100u", 1, 1, None),
    ("1000001u", "1000001u", 2, 1001, None),
    ("0.1n", "1n", 1, 1, None),
    ("-0.0000000001", "-1n", 1, 1, None),
    ("1.0", "1", 1, 1000, None),
    ("3.0000", "3", 3, 3000, None),
    ("1.0000000000", "1", 1, 1000, None),
    ("1e3", "1e3", 1000, 1000000, Some(1000)),
    ("1E+3", "1e3", 1000, 1000000, Some(1000)),
    ("2e0", "2", 2, 2000, Some(2)),
    ("1.5e3", "1500", 1500, 1500000, Some(1500)),
    ("1e-10", "1e-9", 1, 1, None),
    ("1e18", "1e18", 1000000000000000000, 0, Some(1000000000000000000)),
    ("1e19", "10e18", 0, 0, None),
    ("12e29", "1200e27", 0, 0, None),
    ("e3", "0", 0, 0, Some(0)),
    ("1k", "1k", 1000, 1000000, Some(1000)),
    ("1M", "1M", 1000000, 1000000000, Some(1000000)),
    ("1G", "1G", 1000000000, 1000000000000, Some(1000000000)),
    ("1T", "1T", 1000000000000, 1000000000000000, Some(1000000000000)),
    ("1P", "1P", 1000000000000000, 1000000000000000000, Some(1000000000000000)),
    ("1E", "1E", 1000000000000000000, 0, Some(1000000000000000000)),
    ("10E", "10E", 0, 0, None),
    ("1Ki", "1Ki", 1024, 1024000, Some(1024)),
    ("1023", "1023", 1023, 1023000, Some(1023)),
    ("1024", "1024", 1024, 1024000, Some(1024)),
    ("64Mi", "64Mi", 67108864, 67108864000, Some(67108864)),
    ("1.5Gi", "1536Mi", 1610612736, 1610612736000, None),
    ("0.1Gi", "107374182400m", 107374183, 107374182400, None),
    ("0.0001Ki", "102400u", 1, 103, None),
    ("10Ti", "10Ti", 10995116277760, 10995116277760000, Some(10995116277760)),
    ("999Ti", "999Ti", 1098412116148224, 1098412116148224000, None),
    ("1Pi", "1Pi", 1125899906842624, 1125899906842624000, None),
    ("7Ei", "7Ei", 8070450532247928832, -9223372036854775808, None),
    ("8Ei", "9223372036854775807", 9223372036854775807, -1000, None),
    ("-9Ei", "-9223372036854775807", -9223372036854775807, 1000, None),
    ("-1.5", "-1500m", -2, -1500, None),
    ("-1500m", "-1500m", -2, -1500, None),
    ("-1.5Gi", "-1536Mi", -1610612736, -1610612736000, None),
    ("12.345678901Mi", "12945382599294976n", 12945383, 12945382600, None),
    ("1.2345678901234567890123456789Ei", "1423359869420436337655244274n", 1423359869420436338, 2960575744800863224, None),
    ("9223372036854775807", "9223372036854775807", 9223372036854775807, -1000, None),
    ("9223372036854775808", "9223372036854775808", -9223372036854775808, 0, None),
    ("-9223372036854775808", "-9223372036854775808", 0, 0, None),
    ("999999999999999999", "999999999999999999", 999999999999999999, 3875820019684211736, Some(999999999999999999)),
    ("1000000000000000000", "1E", 1000000000000000000, 3875820019684212736, None),
    ("1234567890123456789n", "1234567890123456789n", 1234567891, 1234567890124, None),
    ("1234567890123456789m", "1234567890123456789m", 1234567890123457, 1234567890123456789, None),
    ("123456789012345678901234567", "123456789012345678901234567", -1055827308501316729, -4362896299872286888, None),
    ("9223372036854776", "9223372036854776", 9223372036854776, -9223372036854775616, Some(9223372036854776)),
    ("92233720368547758", "92233720368547758", 92233720368547758, -80, Some(92233720368547758)),
    ("1e4294967296", "1", 1, 1000, Some(1)),
    ("1e9223372036854775807", "100e-3", 1, 100, None),
    ("0e100", "0", 0, 0, Some(0)),
    ("-0.0000000001Ki", "-103n", 1, 1, None),
    ("100000000m", "100k", 100000, 100000000, None),
    ("1.5n", "2n", 1, 1, None),
    ("99999999999999999999", "99999999999999999999", 7766279631452241919, 200376420520688664, None),
    ("18446744073709551616", "18446744073709551616", 0, 0, None),
    ("18446744073709551.616", "18446744073709551616m", 18446744073709552, 0, None),
    ("1e20", "100e18", 0, 0, None),
    ("99999999999999999999Gi", "9223372036854775807", 9223372036854775807, -1000, None),
    ("9223372036854775", "9223372036854775", 9223372036854775, 9223372036854775000, Some(9223372036854775)),
    ("9223372036854775808m", "9223372036854775808m", 9223372036854776, -9223372036854775808, None),
];

#[test]
fn every_spelling_is_parsed_as_in_go() {
    for &(text, canonical, value, milli, integer) in TABLE {
        let found = quantity(text);
        assert_eq!(found.to_string(), canonical, "{text:?} printed");
        assert_eq!(found.value(), value, "{text:?} in units");
        assert_eq!(found.milli_value(), milli, "{text:?} in thousandths");
        assert_eq!(found.as_i64(), integer, "{text:?} as an integer");
    }
}

#[test]
fn text_that_is_not_a_quantity_is_rejected_with_gos_message() {
    use QuantityError::{Form, Number, Suffix};
    for (error, texts) in [
        (
            Form,
            &[
                "", "1 ", " 1", "1x", "1e3.5", "1.2.3", "½", "1_000", "1,5", "1Zi", "0x10",
            ][..],
        ),
        (Number, &["Ei", "+Ei", ".Ei", "Pi"]),
        (
            Suffix,
            &[
                "1Kii",
                "1ki",
                "1e",
                "1ee3",
                "--1",
                "1-",
                "1+3",
                "1m5",
                "1i",
                "1e9223372036854775808",
            ],
        ),
    ] {
        for text in texts {
            assert_eq!(text.parse::<Quantity>(), Err(error), "{text:?}");
        }
    }
    assert_eq!(
        Number.to_string(),
        "unable to parse numeric part of quantity"
    );
    assert_eq!(Suffix.to_string(), "unable to parse quantity's suffix");
    assert!(
        Form.to_string()
            .starts_with("quantities must match the regular expression '^")
    );
}

#[test]
fn the_amount_decides_equality_and_order() {
    let ascending = [
        "-9Ei",
        "-1e3",
        "-1",
        "-1n",
        "0",
        "1n",
        "1m",
        "0.9999999999",
        "1001m",
        "1.5",
        "1023",
        "1Ki",
        "1M",
        "1Mi",
        "1.5Gi",
        "2G",
        "1e30",
        "1e31",
        "1e2000000000",
    ];
    let amounts: Vec<Quantity> = ascending.iter().map(|text| quantity(text)).collect();
    for (position, amount) in amounts.iter().enumerate() {
        for (other_position, other) in amounts.iter().enumerate() {
            assert_eq!(
                amount.cmp(other),
                position.cmp(&other_position),
                "{amount} {other}"
            );
        }
    }
    for equal in [
        ["1", "1000m"],
        ["1.0000000000", "1e0"],
        ["1Gi", "1073741824"],
        ["0", "-0"],
    ] {
        assert_eq!(quantity(equal[0]), quantity(equal[1]));
    }
}

/// The results are those of Go's `Add` and `Sub`.
#[test]
fn sums_and_differences_keep_the_spelling_of_their_left_side() {
    for (left, right, sum, difference) in [
        ("1", "500m", "1500m", "500m"),
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("0", "512Mi", "512Mi", "-512Mi"),
        ("1e3", "1k", "2e3", "0"),
        ("1.5Gi", "1G", "2610612736", "610612736"),
        (
            "9223372036854775807",
            "1",
            "9223372036854775808",
            "9223372036854775806",
        ),
        (
            "1e30",
            "1",
            "1000000000000000000000000000001",
            "999999999999999999999999999999",
        ),
    ] {
        assert_eq!(
            (quantity(left) + quantity(right)).to_string(),
            sum,
            "{left} + {right}"
        );
        let found = (quantity(left) - quantity(right)).to_string();
        assert_eq!(found, difference, "{left} - {right}");
    }
}

#[test]
fn a_sum_of_integers_stays_an_integer_while_it_fits() {
    let most = Quantity::from(i64::MAX);
    assert_eq!((quantity("1k") + quantity("1")).as_i64(), Some(1001));
    assert_eq!((most - quantity("1")).as_i64(), Some(i64::MAX - 1));
    assert_eq!((most + quantity("1")).as_i64(), None);
    assert_eq!((quantity("1.5Gi") + quantity("0.5Gi")).as_i64(), None);
}

#[test]
fn an_amount_beyond_every_suffix_is_printed_with_an_exponent() {
    assert_eq!(quantity("1000E").to_string(), "1e21");
    let large = (0..1024).fold(Quantity::ZERO, |sum, _| sum + quantity("1Ei"));
    assert_eq!(large.to_string(), "1180591620717411303424");
}

#[test]
fn extreme_text_is_parsed_quickly() {
    let long = "9".repeat(100_000);
    let most = quantity(&long);
    assert_eq!(most, quantity("1e100000"));
    assert_eq!(quantity(&format!("-{long}")) + most, Quantity::ZERO);
    assert_eq!(
        quantity(&format!("0.{}1", "0".repeat(100_000))),
        quantity("1n")
    );
    assert_eq!(quantity("1e-2147483648"), quantity("1n"));
    assert_eq!(quantity("3e2147483647").value(), 0);
    assert!(quantity("3e2147483647") + quantity("1n") > quantity("3e2147483647"));
    assert_eq!(
        quantity(&format!("{long}Ki")),
        quantity("9223372036854775807")
    );
}

#[test]
fn json_gives_text_numbers_or_null() {
    for (json, expected) in [
        (r#""1500m""#, "1500m"),
        (r#"" 2Gi ""#, "2Gi"),
        ("4", "4"),
        ("-4", "-4"),
        ("1.5", "1500m"),
        ("1e21", "1e21"),
        ("null", "0"),
    ] {
        let found: Quantity = serde_json::from_str(json).expect(json);
        assert_eq!(found.to_string(), expected, "{json}");
    }
    assert_eq!(
        serde_json::to_string(&quantity("1.5Gi")).expect("text"),
        r#""1536Mi""#
    );
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

fn spelling() -> impl Strategy<Value = String> {
    let suffix = prop_oneof![
        Just(String::new()),
        "n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei",
        (-40..40_i32).prop_map(|exponent| format!("e{exponent}")),
    ];
    ("[+-]?[0-9]{1,30}(\\.[0-9]{0,12})?", suffix).prop_map(|(number, suffix)| number + &suffix)
}

/// `resource.MustParse("812.5Ki").String()` is `832000`, which parses as a decimal quantity: its String() is `832k`.
#[test]
fn bytes_printed_without_a_suffix_are_decimal_when_read_again() {
    for (text, printed, again) in [
        ("812.5Ki", "832000", "832k"),
        ("1000.5Ki", "1024512", "1024512"),
        ("1.5Gi", "1536Mi", "1536Mi"),
    ] {
        assert_eq!(quantity(text).to_string(), printed);
        assert_eq!(quantity(printed).to_string(), again);
        assert_eq!(quantity(again), quantity(text));
    }
}

proptest! {
    #[test]
    fn a_printed_quantity_parses_to_the_same_amount(text in spelling()) {
        let printed = quantity(&text).to_string();
        prop_assert_eq!(quantity(&printed), quantity(&text));
        // Bytes without a suffix are read as a decimal quantity; what that prints is the last form.
        let again = quantity(&printed).to_string();
        prop_assert_eq!(quantity(&again), quantity(&text));
        prop_assert_eq!(quantity(&again).to_string(), again.clone());
        prop_assert!(again == printed || printed.bytes().all(|c| c == b'-' || c.is_ascii_digit()));
    }

    #[test]
    fn no_text_panics_the_parser(text in "[-+.0-9eEinumkKMGTP]{0,40}|.{0,10}") {
        if let Ok(found) = text.parse::<Quantity>() {
            let _ = (found.value(), found.milli_value(), found.as_i64(), found.to_string());
            let _ = (found + found, found - found, found.cmp(&Quantity::from(1)));
        }
    }

    #[test]
    fn subtraction_reverts_addition(left in "[0-9]{1,20}(m|Ki|\\.[0-9]{1,9})?", right in "[0-9]{1,20}(n|G|Mi)?") {
        let (left, right) = (quantity(&left), quantity(&right));
        prop_assert_eq!(left + right - right, left);
        prop_assert_eq!(left + right, right + left);
        prop_assert!(right.is_zero() || left + right > left);
    }
}

#[test]
fn a_quantity_takes_half_a_cache_line() {
    assert_eq!(size_of::<Quantity>(), 32);
}
