//! Closed sets of names: enums whose values are written in tables, JSON, configs and prompts, and read back.

use std::fmt;
use std::str::FromStr;

use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::config::nearest;

/// Characters of a wrong name that an error shows.
const SHOWN_MAX_CHARS: usize = 60;

/// Declares such an enum. A value's name is its own in snake case; all values, all names and how a name is read follow from the
/// one declaration, so that no list of them is kept by hand.
macro_rules! names {
    ($(#[$about:meta])* pub enum $set:ident { $($(#[$note:meta])* $value:ident),+ $(,)? }) => {
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            serde::Serialize,
            strum::EnumString,
            strum::IntoStaticStr,
            strum::VariantNames,
        )]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case")]
        $(#[$about])*
        pub enum $set {
            $($(#[$note])* $value),+
        }

        impl $set {
            /// All of them, as declared. Stores keep the position: new ones come last.
            pub const ALL: [Self; [$(stringify!($value)),+].len()] = [$(Self::$value),+];

            /// The names of all of them.
            pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

            /// Its name.
            pub fn as_str(self) -> &'static str {
                self.into()
            }
        }

        impl<'de> serde::Deserialize<'de> for $set {
            fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                $crate::names::one_of(reader, Self::NAMES)
            }
        }
    };
}

/// Reads one of these names. The error lists them, and says which is meant.
pub fn one_of<'de, T: FromStr, D: Deserializer<'de>>(
    reader: D,
    names: &'static [&'static str],
) -> Result<T, D::Error> {
    reader.deserialize_str(OneOf { names, read: |name| name.parse().ok() })
}

struct OneOf<T> {
    names: &'static [&'static str],
    read: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for OneOf<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of `{}`", self.names.join("`, `"))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        let known = self.names.contains(&name).then(|| (self.read)(name)).flatten();
        known.ok_or_else(|| {
            let near = nearest(name, self.names.iter().copied());
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let got: String = name.chars().take(SHOWN_MAX_CHARS).collect();
            E::custom(format_args!("wanted one of `{}`, got `{got}`{hint}", self.names.join("`, `")))
        })
    }
}
