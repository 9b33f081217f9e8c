//! Limits of the JSON Schemas of tools and forms, and of the work to check a value by one.

/// Schemas in one schema, each `$ref` counted with all to which it leads.
pub const SCHEMA_SIZE_MAX: usize = 20_000;
/// Schemas inside each other, those to which a `$ref` leads included.
pub const SCHEMA_DEPTH_MAX: usize = 128;
/// Regular expressions in one schema.
pub const SCHEMA_PATTERNS_MAX: usize = 100;
/// One regular expression, compiled.
pub const SCHEMA_PATTERN_MAX_BYTES: usize = 2 * 1024 * 1024;
/// How often one regular expression may go back in one text before the text does not fit.
pub const SCHEMA_PATTERN_TRIES: usize = 20_000;
/// Steps that one match of a regular expression counts as.
pub const SCHEMA_PATTERN_STEPS: usize = 100;
/// Steps to check one value.
pub const SCHEMA_STEPS_MAX: usize = 250_000;
/// Such steps inside each other: each needs some stack.
pub const SCHEMA_STEPS_DEPTH_MAX: usize = 512;
/// Schemas in the schema of a form, which a person fills in.
pub const FORM_SIZE_MAX: usize = 500;
/// Schemas inside each other in a form.
pub const FORM_DEPTH_MAX: usize = 16;
