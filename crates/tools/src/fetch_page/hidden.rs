//! Which elements of a page are left out, and where they end. The end tag of many may be left out too: then they end where
//! HTML says, with the next element of their kind or with what is around them. Counts open elements and keeps no tree.
//! Must not know text.

/// Elements whose end tag is always written, and which end what is open inside them; in order.
const AROUND: [&[u8]; 31] = [
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"button",
    b"center",
    b"details",
    b"dialog",
    b"dir",
    b"div",
    b"dl",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"hgroup",
    b"listing",
    b"main",
    b"menu",
    b"nav",
    b"object",
    b"ol",
    b"pre",
    b"ruby",
    b"search",
    b"section",
    b"summary",
    b"table",
    b"ul",
];
/// Those of them that hold back no item of a list.
const LETS_ITEMS_END: [&[u8]; 2] = [b"div", b"address"];
/// Elements that end a paragraph when they begin, beside those of [`AROUND`].
const END_PARAGRAPH: [&[u8]; 12] =
    [b"p", b"hr", b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"li", b"dd", b"dt", b"plaintext"];
/// Elements of [`AROUND`] that do not.
const IN_PARAGRAPH: [&[u8]; 3] = [b"button", b"object", b"ruby"];
const TABLE_PARTS: [&[u8]; 7] = [b"td", b"th", b"tr", b"tbody", b"thead", b"tfoot", b"caption"];
/// Elements without content.
const VOID: [&[u8]; 13] = [
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"source",
    b"track", b"wbr",
];
/// Tables in tables that are told apart.
const TABLES_MAX: usize = 256;

/// How many elements of each kind of [`AROUND`] are open.
type Counts = [u32; AROUND.len()];

fn position(name: &[u8]) -> Option<usize> {
    AROUND.binary_search(&name).ok()
}

fn count(counts: &Counts, name: &[u8]) -> u32 {
    position(name).map_or(0, |at| counts[at])
}

/// What ends an element whose end tag may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    /// Nothing: its end tag is written.
    Written,
    Paragraph,
    /// The next item of the list, or one of these.
    Item(&'static [&'static [u8]]),
    /// The next part of the table that is at least as large: the position in this list from which on.
    TablePart(&'static [&'static [u8]]),
}

fn kind(name: &[u8]) -> ElementKind {
    match name {
        b"p" => ElementKind::Paragraph,
        b"li" => ElementKind::Item(&[b"li"]),
        b"dd" | b"dt" => ElementKind::Item(&[b"dd", b"dt"]),
        b"rb" | b"rt" | b"rtc" | b"rp" => ElementKind::Item(&[b"rb", b"rt", b"rtc", b"rp"]),
        b"td" | b"th" | b"caption" => ElementKind::TablePart(&TABLE_PARTS),
        b"tr" => ElementKind::TablePart(&[b"tr", b"tbody", b"thead", b"tfoot"]),
        b"tbody" | b"thead" | b"tfoot" => ElementKind::TablePart(&[b"tbody", b"thead", b"tfoot"]),
        _ => ElementKind::Written,
    }
}

/// What is left out of a page while it is read.
pub(super) struct HiddenParts {
    /// Whether the page says that it is one of today: then a table ends a paragraph.
    pub(super) has_doctype: bool,
    /// What is open around the next text, of the page and of each table in which it is.
    open: Vec<Counts>,
    /// Tables beyond [`TABLES_MAX`].
    more_tables: usize,
    element: Option<Element>,
}

/// The element that is left out.
struct Element {
    name: Vec<u8>,
    kind: ElementKind,
    /// How many of its name are open, itself included.
    same: u32,
    /// What is open in it.
    inside: Counts,
}

impl HiddenParts {
    pub(super) fn new() -> Self {
        Self { has_doctype: false, open: vec![[0; AROUND.len()]], more_tables: 0, element: None }
    }

    /// Whether what comes is left out.
    pub(super) fn is_open(&self) -> bool {
        self.element.is_some()
    }

    /// An element begins; returns whether it is left out, by itself or with what is around it.
    pub(super) fn start(&mut self, name: &[u8], is_left_out: impl FnOnce() -> bool) -> bool {
        let (has_doctype, in_table) = (self.has_doctype, self.open.len() > 1);
        if let Some(element) = &mut self.element {
            if !element.ends_before(name, has_doctype, in_table) {
                element.same += u32::from(element.name == name);
                if let Some(at) = position(name) {
                    element.inside[at] += 1;
                }
                return true;
            }
            self.element = None;
        }
        if is_left_out() {
            if !VOID.contains(&name) {
                let inside = [0; AROUND.len()];
                self.element = Some(Element { name: name.to_vec(), kind: kind(name), same: 1, inside });
            }
            return true;
        }
        self.began(name);
        false
    }

    /// An element ends; returns whether that is left out.
    pub(super) fn end(&mut self, name: &[u8]) -> bool {
        let in_table = self.open.len() > 1;
        let around = self.open.last().is_some_and(|open| count(open, name) > 0);
        if let Some(element) = &mut self.element {
            match element.end(name, around, in_table) {
                End::Goes => return true,
                End::Own => {
                    self.element = None;
                    return true;
                }
                End::Around => self.element = None,
            }
        }
        self.ended(name);
        false
    }

    fn began(&mut self, name: &[u8]) {
        if TABLE_PARTS.contains(&name) && self.open.len() > 1 {
            // What was open in the cell before ended with it.
            self.open.pop();
            self.open.push([0; AROUND.len()]);
        }
        if let Some((open, at)) = self.open.last_mut().zip(position(name)) {
            open[at] += 1;
        }
        if name == b"table" {
            if self.open.len() < TABLES_MAX {
                self.open.push([0; AROUND.len()])
            } else {
                self.more_tables += 1
            }
        }
    }

    fn ended(&mut self, name: &[u8]) {
        if name == b"table" {
            if self.more_tables > 0 {
                self.more_tables -= 1;
            } else if self.open.len() > 1 {
                self.open.pop();
            }
        }
        if let Some((open, at)) = self.open.last_mut().zip(position(name)) {
            open[at] = open[at].saturating_sub(1);
        }
    }
}

/// What an end tag does to the element that is left out.
enum End {
    /// It is within it.
    Goes,
    /// It is its own.
    Own,
    /// It ends what is around it.
    Around,
}

impl Element {
    fn in_inner_table(&self) -> bool {
        count(&self.inside, b"table") > 0
    }

    /// Whether it ends where that element begins.
    fn ends_before(&self, name: &[u8], has_doctype: bool, in_table: bool) -> bool {
        let next_part = in_table && TABLE_PARTS.contains(&name) && !self.in_inner_table();
        match self.kind {
            ElementKind::Written => false,
            ElementKind::Paragraph => {
                let is_held =
                    [b"button".as_slice(), b"object"].iter().any(|held| count(&self.inside, held) > 0);
                let is_block = position(name).is_some() && !IN_PARAGRAPH.contains(&name);
                let ends = END_PARAGRAPH.contains(&name) || is_block && (has_doctype || name != b"table");
                next_part || ends && !is_held
            }
            ElementKind::Item(next) => {
                let holds = |(at, open): (usize, &u32)| *open > 0 && !LETS_ITEMS_END.contains(&AROUND[at]);
                next_part || next.contains(&name) && !self.inside.iter().enumerate().any(holds)
            }
            ElementKind::TablePart(next) => next.contains(&name) && !self.in_inner_table(),
        }
    }

    /// `around`: whether an element of that name is open around it.
    fn end(&mut self, name: &[u8], around: bool, in_table: bool) -> End {
        if self.name == name {
            self.same -= 1;
            return if self.same == 0 { End::Own } else { End::Goes };
        }
        if let Some(at) = position(name).filter(|at| self.inside[*at] > 0) {
            self.inside[at] -= 1;
            if self.kind != ElementKind::Written && self.inside.iter().all(|open| *open == 0) {
                // Those of its name whose end tag was left out ended with that.
                self.same = 1;
            }
            return End::Goes;
        }
        let part_ends = in_table
            && !self.in_inner_table()
            && (name == b"table" || TABLE_PARTS.contains(&name))
            && match self.kind {
                ElementKind::Paragraph | ElementKind::Item(_) => true,
                // Its own kind or a larger one: a row does not end with a cell.
                ElementKind::TablePart(next) => {
                    name == b"table" || next.contains(&name) && name != b"td" && name != b"th"
                }
                ElementKind::Written => false,
            };
        let is_around = around && matches!(self.kind, ElementKind::Paragraph | ElementKind::Item(_));
        if part_ends || is_around { End::Around } else { End::Goes }
    }
}
