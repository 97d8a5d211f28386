//! Kubernetes quantities. A printed quantity parses as the same amount and prints the same again.
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
    assert_eq!(again.to_string(), printed);
    let _ = (amount.value(), amount.milli_value(), amount.as_i64());
    assert_eq!(amount.clone() - amount.clone(), Quantity::from(0));
    let _ = amount.clone() + amount;
});
