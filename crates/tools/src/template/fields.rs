//! A delivery as a template of a trusted hook sees it: single fields can be taken of it, and whatever is more than that is noted.
//! What was taken is seen where it is taken, so no way of writing a template gets around it. Must not know hooks.

use std::sync::{Arc, Mutex};

use agent::guard::check_field;
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};

use crate::arguments::cut;

/// What a template has taken.
#[derive(Debug, Default)]
struct Taken {
    chars: usize,
    beyond: Option<String>,
}

/// What templates have taken of one delivery.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenFields(Arc<Mutex<Taken>>);

impl TakenFields {
    /// The value of `name`, which notes what is taken of it.
    pub(crate) fn watch(&self, name: &str, value: Value) -> Value {
        self.wrapped(name.to_owned(), value)
    }

    /// What is more than plain fields, if anything is.
    pub(crate) fn beyond(&self) -> Option<String> {
        self.taken(|taken| taken.beyond.clone())
    }

    fn wrapped(&self, path: String, value: Value) -> Value {
        let repr = match value.kind() {
            ValueKind::Map => ObjectRepr::Map,
            ValueKind::Seq => ObjectRepr::Seq,
            ValueKind::String => {
                self.take(&path, value.as_str().unwrap_or_default());
                return value;
            }
            // A number, a truth value, or nothing.
            _ => return value,
        };
        Value::from_object(Part { path, value, repr, taken: self.clone() })
    }

    fn take(&self, path: &str, text: &str) {
        self.taken(|taken| match check_field(text, taken.chars) {
            Ok(chars) => taken.chars = chars,
            Err(what) => taken.note(format!("`{}` is {what}", cut(path))),
        });
    }

    fn taken<T>(&self, with: impl FnOnce(&mut Taken) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Taken {
    fn note(&mut self, why: String) {
        self.beyond.get_or_insert(why);
    }
}

/// An object or a list of a delivery. The items of a list can be gone through; an object can be taken only field by field, since
/// whoever writes it chooses its keys.
#[derive(Debug)]
struct Part {
    path: String,
    value: Value,
    repr: ObjectRepr,
    taken: TakenFields,
}

impl Object for Part {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.repr
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let found = self.value.get_item(key).ok().filter(|found| !found.is_undefined())?;
        let path = match key.as_str() {
            Some(name) => format!("{}.{name}", self.path),
            None => format!("{}[{key}]", self.path),
        };
        Some(self.taken.wrapped(path, found))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let length = self.value.len().unwrap_or_default();
        if self.repr == ObjectRepr::Seq {
            return Enumerator::Seq(length);
        }
        self.taken.taken(|taken| taken.note(format!("`{}` is taken as a whole", cut(&self.path))));
        Enumerator::Empty
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.value.len()
    }
}
