//! Writes text in lines: white space is collapsed, blank lines, bullets and brackets are written only once text follows
//! them, and nothing is written beyond the limit. Must not know HTML.

/// Deepest list or quotation that is indented further than the one around it.
const DEPTH_SHOWN: usize = 8;

/// A text that grows.
#[derive(Default)]
pub(super) struct TextLines {
    text: String,
    max: usize,
    is_cut: bool,
    /// Line ends before the next text.
    gap: usize,
    /// Whether a space comes before the next text.
    space: bool,
    /// What is written directly before the next text, such as a bullet.
    lead: String,
    /// Where the running link leads.
    link: Option<String>,
    is_at_fence: bool,
    is_in_link: bool,
    /// Quotations around the next text.
    pub(super) quotes: usize,
    /// Lists around the next text.
    pub(super) lists: usize,
    /// Line ends so far.
    pub(super) ends: usize,
}

impl TextLines {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    /// The text, and whether there was more of it than the limit.
    pub(super) fn finish(mut self) -> (String, bool) {
        self.end_link();
        self.text.truncate(self.text.trim_end().len());
        (self.text, self.is_cut)
    }

    /// Begins a new line, or a new paragraph with two. A link stays in its line.
    pub(super) fn gap(&mut self, ends: usize) {
        if self.is_in_link {
            self.space = true;
        } else {
            self.gap = self.gap.max(ends);
        }
    }

    /// Separates the next text from the last one by a space.
    pub(super) fn space(&mut self) {
        self.space = true;
    }

    /// Writes this before the next text, in place of what would have been.
    pub(super) fn lead(&mut self, text: impl Into<String>) {
        self.lead = text.into();
    }

    /// The same after what will be written.
    pub(super) fn add_lead(&mut self, text: &str) {
        self.lead.push_str(text);
    }

    /// Continues the line that was about to end.
    pub(super) fn join(&mut self) {
        (self.gap, self.space) = (0, false);
    }

    /// Whether something is written before the next text.
    pub(super) fn has_lead(&self) -> bool {
        !self.lead.is_empty()
    }

    /// Depth to which a list of this depth is indented.
    pub(super) fn shown(depth: usize) -> usize {
        depth.min(DEPTH_SHOWN)
    }

    pub(super) fn begin_link(&mut self, target: String) {
        self.end_link();
        self.link = Some(target);
    }

    /// A link without text leaves nothing.
    pub(super) fn end_link(&mut self) {
        if let Some(target) = self.link.take().filter(|_| self.is_in_link) {
            self.push(&format!("]({target})"));
        }
        self.is_in_link = false;
    }

    /// Writes words.
    pub(super) fn words(&mut self, text: &str) {
        self.space |= text.starts_with(|c: char| c.is_ascii_whitespace());
        for word in text.split_ascii_whitespace() {
            self.begin();
            self.push(word);
            self.space = true;
        }
        if !text.is_empty() {
            self.space = text.ends_with(|c: char| c.is_ascii_whitespace());
        }
    }

    /// Begins text whose white space counts.
    pub(super) fn begin_fence(&mut self) {
        self.begin();
        self.push("```\n");
        self.is_at_fence = true;
    }

    /// Ends it.
    pub(super) fn end_fence(&mut self) {
        self.end_line();
        self.push("```");
    }

    /// Writes text with its white space, but for a line end at its beginning.
    pub(super) fn verbatim(&mut self, text: &str) {
        let is_first = std::mem::take(&mut self.is_at_fence);
        let text = text.strip_prefix('\n').filter(|_| is_first).unwrap_or(text);
        self.push(text);
    }

    /// Ends the line at once, if it has begun.
    pub(super) fn end_line(&mut self) {
        if !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    fn begin(&mut self) {
        if self.gap > 0 || self.text.is_empty() {
            let ends = if self.text.is_empty() { 0 } else { self.gap };
            self.push(&"\n".repeat(ends));
            self.push(&"> ".repeat(Self::shown(self.quotes)));
            if self.lead.is_empty() {
                self.push(&"  ".repeat(Self::shown(self.lists)));
            }
        } else if self.space {
            self.push(" ");
        }
        (self.gap, self.space) = (0, false);
        let lead = std::mem::take(&mut self.lead);
        self.push(&lead);
        if self.link.is_some() && !self.is_in_link {
            self.push("[");
            self.is_in_link = true;
        }
    }

    fn push(&mut self, text: &str) {
        let room = self.max - self.text.len();
        self.is_cut |= text.len() > room;
        let text = &text[..text.floor_char_boundary(room)];
        self.ends += text.bytes().filter(|byte| *byte == b'\n').count();
        self.text.push_str(text);
        if self.is_cut {
            self.max = self.text.len();
        }
    }
}
