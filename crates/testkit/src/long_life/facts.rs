//! Facts that are planted in a life and asked back at its end: each with a value that occurs nowhere else, so that a text shows
//! whether it is known.

/// A sentence with `{who}` and `{value}`, the question for it in its words and in others, and the beginning of its values.
struct FactTemplate {
    statement: &'static str,
    question: &'static str,
    in_other_words: &'static str,
    value: &'static str,
}

/// What a customer tells once.
const OF_CUSTOMERS: [FactTemplate; 5] = [
    FactTemplate {
        statement: "every invoice for {who} must carry the purchase number {value}",
        question: "Which purchase number must every invoice for {who} carry?",
        in_other_words: "What do we have to quote when we bill {who}?",
        value: "PO",
    },
    FactTemplate {
        statement: "deliveries to {who} go to gate {value}, never to the front door",
        question: "To which gate do deliveries to {who} go?",
        in_other_words: "Where does the truck unload at {who}?",
        value: "G",
    },
    FactTemplate {
        statement: "refunds at {who} are approved by the holder of badge {value}",
        question: "Which badge does the holder have who approves refunds at {who}?",
        in_other_words: "Whose consent do we need before we pay {who} back?",
        value: "RA",
    },
    FactTemplate {
        statement: "the routers at {who} run firmware {value} and must not be updated",
        question: "Which firmware do the routers at {who} run?",
        in_other_words: "Which software version has to stay on the network devices of {who}?",
        value: "FW",
    },
    FactTemplate {
        statement: "the support line of {who} is {value}, in the mornings only",
        question: "What is the support line of {who}?",
        in_other_words: "Which number do we dial to reach someone at {who}?",
        value: "LINE",
    },
];

/// The customers of the support desk.
pub(super) const CUSTOMERS: [&str; 8] =
    ["Marlow", "Ostrava", "Fennel", "Quayside", "Birk", "Tamarind", "Wexford", "Juniper"];

/// What is found in source files.
const OF_MODULES: [FactTemplate; 3] = [
    FactTemplate {
        statement: "the retry limit of `{who}` is fixed in the constant {value}",
        question: "In which constant is the retry limit of `{who}` fixed?",
        in_other_words: "Where does `{who}` say how often it tries again?",
        value: "LIMIT",
    },
    FactTemplate {
        statement: "the known fault of `{who}` is filed as ticket {value}",
        question: "As which ticket is the known fault of `{who}` filed?",
        in_other_words: "Where do we read about the bug in `{who}`?",
        value: "BUG",
    },
    FactTemplate {
        statement: "the old format of `{who}` ends with version {value}",
        question: "With which version does the old format of `{who}` end?",
        in_other_words: "Until which release can `{who}` read what was written before?",
        value: "V",
    },
];

/// The modules that the coding agent works on.
pub(super) const MODULES: [&str; 4] = ["queue", "ledger", "outbox", "index"];

/// A fact, and the question that asks it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFact {
    /// The sentence that states it.
    pub statement: String,
    /// What only this fact says.
    pub value: String,
    /// A value that nobody ever said, for a summarizer that invents.
    pub invented: String,
    /// The question.
    pub question: String,
    /// Whether the question uses other words than the statement. A third do.
    pub in_other_words: bool,
}

impl PlantedFact {
    /// The sentence with the value that nobody said.
    pub(super) fn invented_statement(&self) -> String {
        self.statement.replace(&self.value, &self.invented)
    }
}

/// Facts about customers, at most 40.
pub(super) fn of_customers(count: usize) -> Vec<PlantedFact> {
    facts(&OF_CUSTOMERS, &CUSTOMERS, count)
}

/// Facts about modules, at most 12.
pub(super) fn of_modules(count: usize) -> Vec<PlantedFact> {
    facts(&OF_MODULES, &MODULES, count)
}

fn facts(templates: &[FactTemplate], subjects: &[&str], count: usize) -> Vec<PlantedFact> {
    let fact = |n: usize| {
        // Each subject meets each template once.
        let (who, template) = (subjects[n % subjects.len()], &templates[n / subjects.len()]);
        let value = format!("{}-{}", template.value, 1_021 + 37 * n);
        let in_other_words = n % 3 == 2;
        let question = if in_other_words { template.in_other_words } else { template.question };
        PlantedFact {
            statement: template.statement.replace("{who}", who).replace("{value}", &value),
            value,
            invented: format!("{}-{}", template.value, 7_013 + 41 * n),
            question: question.replace("{who}", who),
            in_other_words,
        }
    };
    (0..count.min(templates.len() * subjects.len())).map(fact).collect()
}
