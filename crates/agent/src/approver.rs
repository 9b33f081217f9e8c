//! Whom `approvers` of an agent's config names: people by their handles, or by the role that they have in the space of the call.
//! Must not know spaces and people themselves.

/// What stands before the name of a role.
const ROLE: &str = "role:";

/// One entry of `approvers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approver<'a> {
    /// The person of that handle, from whatever space.
    Handle(&'a str),
    /// Members of the call's space who have that role in it.
    Role(&'a str),
}

impl<'a> Approver<'a> {
    /// Reads an entry: `mira`, `@mira` or `role:lead`.
    pub fn of(entry: &'a str) -> Self {
        let entry = entry.trim();
        match entry.strip_prefix(ROLE) {
            Some(role) => Self::Role(role.trim()),
            None => Self::Handle(entry.trim_start_matches('@')),
        }
    }

    /// The handle, if it names one.
    pub fn handle(self) -> Option<&'a str> {
        match self {
            Self::Handle(handle) => Some(handle),
            Self::Role(_) => None,
        }
    }

    /// Whether it names nobody.
    pub fn is_empty(self) -> bool {
        let (Self::Handle(name) | Self::Role(name)) = self;
        name.is_empty()
    }
}

/// Whether these entries name the person of that handle, who has that role in the space of the call.
pub fn has_approver(approvers: &[String], handle: &str, role: Option<&str>) -> bool {
    approvers.iter().any(|entry| match Approver::of(entry) {
        Approver::Handle(named) => named.eq_ignore_ascii_case(handle),
        Approver::Role(named) => role.is_some_and(|role| role.eq_ignore_ascii_case(named)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_a_person_or_those_with_a_role() {
        let approvers = [" @Mira".to_owned(), "role: Lead ".to_owned()];
        for (handle, role, expected) in [
            ("mira", None, true),
            ("mira", Some("member"), true),
            ("tom", Some("lead"), true),
            ("tom", Some("member"), false),
            ("tom", None, false),
            ("lead", None, false),
            ("role: Lead", None, false),
        ] {
            assert_eq!(has_approver(&approvers, handle, role), expected, "{handle} {role:?}");
        }
        assert!(Approver::of("role:").is_empty() && Approver::of("@").is_empty());
    }
}
