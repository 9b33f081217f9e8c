//! Closed sets of names: enums whose values are written in tables, JSON, configs and prompts, and read back.

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
            serde::Deserialize,
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
    };
}
