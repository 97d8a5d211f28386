//! Kubernetes quantities. A printed quantity parses as the same amount and prints the same again, except bytes without a
//! suffix: `812.5Ki` prints as `832000`, which is a decimal quantity and prints as `832k`, in Go too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::quantity::Quantity;

fuzz_target!(|text: &str| {
    let Ok(amount) = text.parse::<Quantity>() else {
        return;
    };
    let printed = amount.to_string();
    let again: Quantity = printed.parse().expect("a printed quantity is one");
    assert_eq!(again, amount, "{text:?} prints as {printed:?}");
    let last = again.to_string();
    let without_suffix = printed.bytes().all(|c| c == b'-' || c.is_ascii_digit());
    assert!(last == printed || without_suffix, "{printed:?} prints as {last:?}");
    let reread: Quantity = last.parse().expect("a printed quantity is one");
    assert_eq!(reread, amount, "{text:?} prints as {last:?}");
    assert_eq!(reread.to_string(), last);
    let _ = (amount.value(), amount.milli_value(), amount.as_i64());
    assert_eq!(amount.clone() - amount.clone(), Quantity::from(0));
    let _ = amount.clone() + amount;
});
