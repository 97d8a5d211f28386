//! Macros that declare Go's struct types and named types.

use super::json::Json;
use super::value::{Decoder, GoValue};

/// Declares a Go struct: the package and name of the type, and for every field its Rust name and type, its Go name, its
/// JSON name, and whether it has `omitempty`. A field whose value is absent is left out of all three forms. With `impl`
/// instead of `struct` the Rust type exists already.
macro_rules! go_struct {
    (
        $(#[$doc:meta])*
        struct $record:ident = $package:literal . $go_record:literal {
            $( $field:ident : $type:ty = $go_name:literal $json_name:literal $($omit:ident)? ),+ $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $record {
            $( pub(crate) $field: $type, )+
        }

        $crate::go::record::go_struct! {
            impl $record = $package . $go_record {
                $( $field: $type = $go_name $json_name $($omit)? ),+
            }
        }
    };
    (
        impl $record:ident = $package:literal . $go_record:literal {
            $( $field:ident : $type:ty = $go_name:literal $json_name:literal $($omit:ident)? ),+ $(,)?
        }
    ) => {
        impl $crate::go::value::GoValue for $record {
            fn type_name() -> String {
                concat!($package, ".", $go_record).to_owned()
            }

            fn decode_as(
                &mut self,
                json: &$crate::go::json::Json,
                decoder: &mut $crate::go::value::Decoder,
                name: fn() -> String,
            ) {
                $crate::go::record::decode_members(json, decoder, name, |member, json, decoder| {
                    let found = $crate::go::record::field_named(&[$($json_name),+], member);
                    $( if found == Some($json_name) {
                        decoder.enter($go_record, $json_name);
                        $crate::go::value::GoValue::decode(&mut self.$field, json, decoder);
                        decoder.leave();
                    } )+
                });
            }

            fn dump(&self, out: &mut String) {
                let mut separator = '{';
                $( if !$crate::go::value::GoValue::is_absent(&self.$field) {
                    out.push(separator);
                    out.push_str(concat!($go_name, ":("));
                    out.push_str(&<$type as $crate::go::value::GoValue>::type_name());
                    out.push(')');
                    $crate::go::value::GoValue::dump(&self.$field, out);
                    separator = ' ';
                } )+
                let _ = separator;
                out.push('}');
            }

            fn encode(&self, out: &mut String) {
                let mut separator = "";
                out.push('{');
                $(
                    let left_out = $crate::go::value::GoValue::is_absent(&self.$field) $( || {
                        stringify!($omit) == "omitempty"
                            && $crate::go::value::GoValue::is_empty(&self.$field)
                    } )?;
                    if !left_out {
                        out.push_str(separator);
                        out.push_str(concat!("\"", $json_name, "\":"));
                        $crate::go::value::GoValue::encode(&self.$field, out);
                        separator = ",";
                    }
                )+
                let _ = separator;
                out.push('}');
            }

            fn is_empty(&self) -> bool {
                false
            }
        }
    };
}

/// Declares a Go named type; with `key` it may be the key of a map.
macro_rules! go_named {
    ($(#[$doc:meta])* key struct $named:ident($type:ty) = $name:literal) => {
        $crate::go::record::go_named! {
            $(#[$doc])*
            #[derive(PartialOrd, Ord)]
            struct $named($type) = $name
        }

        impl $crate::go::value::GoKey for $named {
            fn from_name(name: &str) -> Option<Self> {
                <$type>::from_name(name).map(Self)
            }

            fn name(&self) -> String {
                self.0.name()
            }
        }
    };
    ($(#[$attribute:meta])* struct $named:ident($type:ty) = $name:literal) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $named(pub(crate) $type);

        impl $crate::go::value::GoValue for $named {
            fn type_name() -> String {
                $name.to_owned()
            }

            fn decode_as(
                &mut self,
                json: &$crate::go::json::Json,
                decoder: &mut $crate::go::value::Decoder,
                name: fn() -> String,
            ) {
                self.0.decode_as(json, decoder, name);
            }

            fn dump(&self, out: &mut String) {
                self.0.dump(out);
            }

            fn encode(&self, out: &mut String) {
                self.0.encode(out);
            }

            fn is_empty(&self) -> bool {
                $crate::go::value::GoValue::is_empty(&self.0)
            }
        }
    };
}

pub(crate) use {go_named, go_struct};

/// Calls `field` with every member of a JSON object, until one stops the decoding.
pub(crate) fn decode_members(
    json: &Json,
    decoder: &mut Decoder,
    name: fn() -> String,
    mut field: impl FnMut(&str, &Json, &mut Decoder),
) {
    match json {
        Json::Object(members) => {
            for (member, json) in members {
                field(member, json, decoder);
                if decoder.is_stopped() {
                    return;
                }
            }
        }
        Json::Null => {}
        other => decoder.mismatch(other.kind(), &name()),
    }
}

/// The field of a JSON member: with the same name, or else with the same name in another letter case.
pub(crate) fn field_named(names: &[&'static str], member: &str) -> Option<&'static str> {
    let exact = names.iter().find(|name| **name == member);
    let found = exact.or_else(|| names.iter().find(|name| same_letters(name, member)));
    found.copied()
}

/// Case-insensitive equality. The long s and the Kelvin sign fold into ASCII letters.
pub(crate) fn same_letters(name: &str, member: &str) -> bool {
    let folded = |c: char| match c {
        '\u{17f}' => 'S',
        '\u{212a}' => 'K',
        c => c.to_ascii_uppercase(),
    };
    name.chars().map(folded).eq(member.chars().map(folded))
}

/// Go's 32-bit FNV-1a hash of a printed value.
pub(crate) fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// `value` as `dump.ForHash` prints it when it is passed by pointer, under the type name `name`.
pub(crate) fn dump_of_pointer<T: GoValue>(value: &T, name: &str) -> String {
    let mut out = format!("(*{name})");
    value.dump(&mut out);
    out
}
