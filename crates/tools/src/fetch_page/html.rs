//! From HTML to text with headings, lists, tables and links. Reads tag by tag and keeps no tree: the work grows with the
//! page's length only, however deeply it is nested. Must not know where the page came from, beyond its address.

use agent::limits;
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Emitter, ForwardingEmitter, HtmlString, StartTag, Token, Tokenizer};
use reqwest::Url;

use super::hidden::HiddenParts;
use super::lines::TextLines;

/// Characters of a title.
const TITLE_MAX_CHARS: usize = 300;
/// Text of an image.
const ALT_MAX_CHARS: usize = 300;

/// A page as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageText {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Reads a page that came from this address. Menus are left out, unless the page has nothing else.
pub(super) fn read(html: &str, url: &Url) -> PageText {
    let page = PageReader::new(url, false, html.len()).read(html);
    if page.text.is_empty() { PageReader::new(url, true, html.len()).read(html) } else { page }
}

struct PageReader {
    with_menus: bool,
    lines: TextLines,
    title: Option<String>,
    is_in_title: bool,
    /// What addresses are relative to; `None`: it is too long.
    base: Option<Url>,
    left_out: HiddenParts,
    /// The running lists; of one with numbers the next number.
    lists: Vec<Option<u32>>,
    /// The running tables.
    tables: Vec<TableRow>,
    /// Running elements whose white space counts.
    preformatted: usize,
}

/// The running row of a table.
#[derive(Clone, Copy, Default)]
struct TableRow {
    cells: usize,
    /// The line of its first text.
    line: Option<usize>,
}

impl PageReader {
    fn new(url: &Url, with_menus: bool, bytes: usize) -> Self {
        let grown = (bytes * limits::PAGE_TEXT_GROWTH_MAX).max(limits::PAGE_TEXT_MIN_BYTES);
        Self {
            with_menus,
            lines: TextLines::new(grown.min(limits::PAGE_TEXT_MAX_BYTES)),
            title: None,
            is_in_title: false,
            base: Some(url.clone()).filter(is_short),
            left_out: HiddenParts::new(),
            lists: Vec::new(),
            tables: Vec::new(),
            preformatted: 0,
        }
    }

    fn read(mut self, html: &str) -> PageText {
        for token in Tokenizer::new_with_emitter(html, PageEmitter::new()) {
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => self.start(&tag),
                Token::EndTag(tag) => self.end(&tag.name),
                Token::String(text) => self.text(&String::from_utf8_lossy(&text.value)),
                Token::Doctype(_) => self.left_out.has_doctype = true,
                Token::Comment(_) | Token::Error(_) => {}
            }
        }
        let (text, is_cut) = self.lines.finish();
        PageText { title: self.title.unwrap_or_default(), text, is_cut }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = tag.name.as_slice();
        let with_menus = self.with_menus;
        if self.left_out.start(name, || is_left_out(tag, with_menus)) {
            return;
        }
        match name {
            b"title" => self.is_in_title = self.title.is_none(),
            b"base" => {
                let found = attribute(tag, "href").and_then(|href| self.base.as_ref()?.join(&href).ok());
                self.base = found.filter(is_short).or(self.base.take());
            }
            b"a" => match attribute(tag, "href").and_then(|href| self.target(&href)) {
                Some(target) if self.preformatted == 0 => self.lines.begin_link(target),
                _ => self.lines.end_link(),
            },
            b"img" => {
                let alt = attribute(tag, "alt").unwrap_or_default();
                if !alt.trim().is_empty() {
                    let alt: String = alt.trim().chars().take(ALT_MAX_CHARS).collect();
                    self.text(&format!("[image: {alt}]"));
                }
            }
            b"br" => self.line(),
            b"li" => self.item(),
            b"ul" | b"ol" => {
                self.around_list();
                let first = || attribute(tag, "start").and_then(|text| text.parse().ok()).unwrap_or(1);
                self.lists.push((name == b"ol").then(first));
                self.lines.lists = self.lists.len();
            }
            b"table" => {
                self.paragraph();
                self.tables.push(TableRow::default());
            }
            b"tr" => self.row(),
            b"td" | b"th" => self.cell(),
            b"blockquote" => {
                self.paragraph();
                self.lines.quotes += 1;
            }
            b"pre" => {
                self.paragraph();
                if self.preformatted == 0 {
                    self.lines.begin_fence();
                }
                self.preformatted += 1;
            }
            _ => self.edge(name),
        }
        if let Some(level) = heading(name) {
            self.lines.add_lead(&format!("{} ", "#".repeat(level)));
        }
    }

    fn end(&mut self, name: &HtmlString) {
        let name = name.as_slice();
        if self.left_out.end(name) {
            return;
        }
        match name {
            b"title" => self.is_in_title = false,
            b"a" => self.lines.end_link(),
            b"li" => self.lines.lead(""),
            b"ul" | b"ol" => {
                self.lists.pop();
                self.lines.lists = self.lists.len();
                self.lines.lead("");
                self.around_list();
            }
            b"table" => {
                self.tables.pop();
                // The next cell around it begins a line.
                if let Some(row) = self.tables.last_mut() {
                    row.line = Some(usize::MAX);
                }
                self.lines.lead("");
                self.paragraph();
            }
            b"tr" => self.row(),
            b"blockquote" => {
                self.lines.quotes = self.lines.quotes.saturating_sub(1);
                self.paragraph();
            }
            b"pre" if self.preformatted > 0 => {
                self.preformatted -= 1;
                if self.preformatted == 0 {
                    self.lines.end_fence();
                }
                self.paragraph();
            }
            _ => self.edge(name),
        }
        if heading(name).is_some() {
            self.lines.lead("");
        }
    }

    fn text(&mut self, text: &str) {
        if self.left_out.is_open() {
            return;
        }
        let text = text.replace('\u{a0}', " ");
        if self.is_in_title {
            let words: Vec<&str> = text.split_whitespace().collect();
            self.title = Some(words.join(" ").chars().take(TITLE_MAX_CHARS).collect());
        } else if self.preformatted > 0 {
            self.lines.verbatim(&text);
        } else {
            self.lines.words(&text);
            if !text.trim().is_empty()
                && let Some(row) = self.tables.last_mut()
            {
                row.line.get_or_insert(self.lines.ends);
            }
        }
    }

    /// Where an element that is not inline begins or ends.
    fn edge(&mut self, name: &[u8]) {
        match name {
            b"p" | b"dl" | b"hr" | b"figure" | b"section" | b"article" | b"main" | b"header" | b"footer"
            | b"aside" | b"nav" | b"form" | b"fieldset" | b"details" | b"address" => self.paragraph(),
            b"div" | b"dt" | b"dd" | b"figcaption" | b"caption" | b"summary" | b"legend" | b"option"
            | b"body" => self.line(),
            _ if heading(name).is_some() => self.paragraph(),
            _ => {}
        }
    }

    /// Begins a line; within a cell, which is one line if it can be, a word.
    fn line(&mut self) {
        if self.preformatted > 0 {
            self.lines.end_line();
        } else if self.is_in_cell() {
            self.lines.space();
        } else {
            self.lines.gap(1);
        }
    }

    /// Begins a paragraph, unless nothing came since the beginning of the cell or the item.
    fn paragraph(&mut self) {
        let is_fresh = |row: &TableRow| row.cells > 0 && row.line.is_none();
        if self.preformatted > 0 {
            self.lines.end_line();
        } else if !self.lines.has_lead() && !self.tables.last().is_some_and(is_fresh) {
            self.lines.gap(2);
        }
    }

    fn around_list(&mut self) {
        if self.lists.is_empty() {
            self.paragraph();
        } else {
            self.lines.gap(1);
        }
    }

    fn item(&mut self) {
        self.lines.end_link();
        self.lines.gap(1);
        let indent = "  ".repeat(TextLines::shown(self.lists.len()).saturating_sub(1));
        let bullet = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}. ", number.saturating_sub(1))
            }
            _ => "- ".to_owned(),
        };
        self.lines.lead(indent + &bullet);
    }

    fn row(&mut self) {
        if let Some(row) = self.tables.last_mut() {
            *row = TableRow::default();
            self.lines.end_link();
            self.lines.lead("");
            self.lines.gap(1);
        }
    }

    /// Begins a cell: in the same line, if the cells before it have one line.
    fn cell(&mut self) {
        let Some(row) = self.tables.last_mut() else { return };
        row.cells += 1;
        if row.cells == 1 {
            return;
        }
        self.lines.end_link();
        match row.line {
            Some(line) if line != self.lines.ends => return self.lines.gap(1),
            Some(_) => self.lines.join(),
            None => {}
        }
        self.lines.add_lead(" | ");
    }

    fn is_in_cell(&self) -> bool {
        self.tables.last().is_some_and(|row| row.cells > 0)
    }

    /// The whole address of a link that leads to another page.
    fn target(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') || href.len() > limits::PAGE_URL_MAX_BYTES {
            return None;
        }
        let target = self.base.as_ref()?.join(href).ok()?;
        let leads = matches!(target.scheme(), "http" | "https" | "mailto" | "ftp") && is_short(&target);
        leads.then(|| target.to_string().replace('(', "%28").replace(')', "%29"))
    }
}

fn is_short(url: &Url) -> bool {
    url.as_str().len() <= limits::PAGE_URL_MAX_BYTES
}

/// The tokens of a page, without the mistakes in it: nobody reads them, and a page can be nothing else.
struct PageEmitter(DefaultEmitter);

impl PageEmitter {
    fn new() -> Self {
        let mut emitter = DefaultEmitter::default();
        // What is in a script or a title is no tag.
        emitter.naively_switch_states(true);
        Self(emitter)
    }
}

impl ForwardingEmitter for PageEmitter {
    type Token = Token;

    fn inner(&mut self) -> &mut impl Emitter<Token = Token> {
        &mut self.0
    }

    fn emit_error(&mut self, _: html5gum::Error) {}

    fn should_emit_errors(&mut self) -> bool {
        false
    }
}

/// Whether a reader of the page would not see it, or not as part of its text.
fn is_left_out(tag: &StartTag<()>, with_menus: bool) -> bool {
    match tag.name.as_slice() {
        b"script" | b"style" | b"noscript" | b"iframe" | b"noembed" | b"template" | b"object" | b"canvas"
        | b"audio" | b"video" | b"select" | b"textarea" | b"xmp" => true,
        b"svg" | b"math" => !tag.self_closing,
        b"nav" => !with_menus || is_hidden(tag),
        // Scripts show a page whose whole is hidden while it loads.
        b"html" | b"body" => false,
        _ => is_hidden(tag),
    }
}

/// Whether a browser shows nothing of it. Pages let appear later what is transparent or small at first: that is read.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let has = |name| attribute(tag, name).is_some();
    let by_name = match tag.name.as_slice() {
        b"datalist" => true,
        b"dialog" => !has("open"),
        _ => false,
    };
    by_name || has("hidden") || has("popover") || attribute(tag, "style").is_some_and(|style| hides(&style))
}

fn hides(style: &str) -> bool {
    let mut declared = String::new();
    let mut rest = style;
    while let Some((before, comment)) = rest.split_once("/*") {
        declared.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    declared.push_str(rest);
    declared.retain(|c| !c.is_whitespace());
    declared.make_ascii_lowercase();
    declared.split(';').any(|one| {
        let one = one.strip_suffix("!important").unwrap_or(one);
        matches!(
            one,
            "display:none" | "visibility:hidden" | "visibility:collapse" | "content-visibility:hidden"
        )
    })
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(&value.value).into_owned())
}

fn heading(name: &[u8]) -> Option<usize> {
    match name {
        [b'h', level @ b'1'..=b'6'] => Some(usize::from(level - b'0')),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        read(html, &"https://a.example/dir/page?q=1".parse().unwrap()).text
    }

    #[track_caller]
    fn check(html: &str, wanted: &str) {
        assert_eq!(text(html), wanted, "{html}");
    }

    #[test]
    fn blocks_are_paragraphs_and_white_space_is_one_space() {
        check("<p>a \n\t b</p>\n<p>c<b>d</b> <i> e</i>", "a b\n\ncd e");
        check("<div>a</div><div>b<br>c</div>", "a\nb\nc");
        check("<h2>A</h2>b<h1></h1><h3><span>C</span></h3>", "## A\n\nb\n\n### C");
        check("<p>a&nbsp;b &lt;i&gt; &#8364;</p>", "a b <i> €");
        check("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n\n> b\n\nc");
        check("a<pre>\n x\n  y <b>z</b>\n</pre>b", "a\n\n```\n x\n  y z\n```\n\nb");
    }

    #[test]
    fn lists_keep_their_numbers_and_depth() {
        check("<ul><li>a<li><p>b</p></li></ul>", "- a\n- b");
        check("<ol start=3><li>a<ul><li>b</ul><li>c</ol>d", "3. a\n  - b\n4. c\n\nd");
        check("<ul><li><li><a href=/x>c</a></ul>", "- [c](https://a.example/x)");
    }

    #[test]
    fn links_have_whole_addresses_and_lead_elsewhere() {
        check(
            "<a href='x'>a</a> <a href='//b.example/(y)'>b</a>",
            "[a](https://a.example/dir/x) [b](https://b.example/%28y%29)",
        );
        check("<base href='/c/'><a href=x>a</a>", "[a](https://a.example/c/x)");
        check("<a href=/x><h2>a</h2><p>b</p></a><p>c", "## [a b](https://a.example/x)\n\nc");
        check("<a href=#a>a</a> <a href='javascript:b()'>b</a> <a href='data:,c'>c</a> <a>d</a>", "a b c d");
        check("x <a href=/x> </a> <a href=/y><img src=i alt='I'></a>", "x [[image: I]](https://a.example/y)");
        check(&format!("<a href='{}'>a</a>", "x".repeat(5_000)), "a");
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        check(
            "<table><tr><th>a<th>b</tr><tr><td><p>1</p></td><td>2<br>3</td></tr><tr><td></td><td>4</td></tr></table>e",
            "a | b\n1 | 2 3\n | 4\n\ne",
        );
        // A table that only arranges a page.
        check("<table><tr><td><p>a</p><p>b</p></td><td>c</td></tr></table>", "a\n\nb\n\nc");
        check("<table><tr><td><table><tr><td>a<td>b</table></td><td>c</table>", "a | b\n\nc");
    }

    #[test]
    fn what_nobody_sees_is_left_out() {
        check("a<script>if (1<2) '<p>x'</script><style>x</style><template>x</template><!-- x -->b", "ab");
        check("a<div hidden>x<div>y</div>z</div><span style='display : none'>x</span>b", "ab");
        for style in [
            "display:\tnone",
            "DISPLAY:\nnone",
            "color:red;display:/**/none/* ; */",
            "display:none !important",
            "visibility: hidden",
            "content-visibility:hidden",
        ] {
            check(&format!("a<span style='{style}'>x</span>b"), "ab");
        }
        for style in
            ["opacity:0", "display:inline/* display:none */", "x-display:none", "--a:visibility:hidden"]
        {
            check(&format!("a<span style='{style}'>x</span>b"), "axb");
        }
        check("a<dialog>x</dialog><datalist><option>x</datalist><span popover>x</span>b", "ab");
        check("<title>t</title><svg><title>x</title></svg><svg/><select><option>x</select>b", "b");
        check("<nav><a href=x>x</a></nav><p>a", "a");
        // A page of nothing but a menu.
        check("<nav><a href=/x>x</a></nav>", "[x](https://a.example/x)");
        assert_eq!(read("<title> a\n b</title><title>c</title>", &"http://a/".parse().unwrap()).title, "a b");
    }

    #[test]
    fn what_is_hidden_ends_where_html_says() {
        const DOCTYPE: &str = "<!doctype html>";
        for (html, wanted) in [
            ("<p hidden>x<p>b", "b"),
            ("<p hidden>x <b>y<div>b</div>", "b"),
            ("<div><p hidden>x</div>b", "b"),
            ("<p hidden>x<li>b", "- b"),
            ("<section><p hidden>x</div>y</section>b", "b"),
            ("<p hidden><button><p>x</p></button>y</p>b", "b"),
            ("<ul><li style='display:none'>x<li>b</ul>c", "- b\n\nc"),
            ("<ul><li hidden>x<ul><li>y<li>z</ul>w</li><li>b</ul>", "- b"),
            ("<ul><li hidden>x<ul><li>y<li>z</ul><li>b</ul>", "- b"),
            ("<ul><li hidden><div>x<li>b</ul>", "- b"),
            ("<ul><li hidden><section>x<li>y</section></li><li>b</ul>", "- b"),
            ("<ul><li hidden>x</ul>b", "b"),
            ("<dl><dt hidden>x<dd>b<dd hidden>y<dt>c</dl>", "b\nc"),
            ("<table><tr><td hidden>x<td>b<tr hidden><td>y<td>z<tr><td>c</table>d", "b\nc\n\nd"),
            ("<table><tr><td hidden>x<table><tr><td>y</table>z<td>b</table>", "b"),
            ("<table><tbody hidden><tr><td>x<tbody><tr><td>b</table>", "b"),
            ("<table><tr><td><p hidden>x<td>b</table>", " | b"),
            ("<div><table><tr><td><p hidden>x</div>y</table>b</div>", "b"),
            ("<table><tr hidden><td>x</td><td>y</td></tr><tr><td>b</table>", "b"),
            ("<h2 hidden>x</h2>b", "b"),
            ("<em hidden>x<p>y</p></em>b<my-box hidden>x</my-box>", "b"),
            ("<img hidden alt=x>b<br hidden>c<input hidden>d", "bcd"),
            ("<div hidden></section>x</div>b", "b"),
            ("<p hidden></section>x</p>b", "b"),
            ("<ruby>a<rt hidden>x<rt>b</ruby>", "ab"),
            ("<body hidden><p>b", "b"),
        ] {
            check(&format!("{DOCTYPE}{html}"), wanted);
        }
        check("<p hidden>x<table><tr><td>y</table>", "");
        check("<!doctype html><p hidden>x<table><tr><td>b</table>", "b");
        // However deep it is, its end is found at once.
        let deep = format!("{}<p hidden>x{}b", "<div>".repeat(150_000), "</section>".repeat(100_000));
        assert_eq!(text(&deep), "");
        let tables = format!("{}<p hidden>x{}b", "<table><tr><td>".repeat(50_000), "</table>".repeat(50_000));
        assert_eq!(text(&tables), "b");
    }

    #[test]
    fn a_page_of_mistakes_is_no_more_than_its_text() {
        let mistakes = "\0\u{1}\u{fdd0}".repeat(1_000);
        assert_eq!(Tokenizer::new_with_emitter(&mistakes, PageEmitter::new()).count(), 1);
        assert!(Tokenizer::new(&mistakes).count() > 1_000, "there would be a token for each");
    }

    #[test]
    fn a_page_that_would_grow_is_cut() {
        let far = format!("https://a.example/{}", "x".repeat(4_000));
        let page = read(&"<a href=x>y".repeat(100_000), &far.parse().unwrap());
        assert!(!page.is_cut && page.text.len() < 4_000_000, "{}", page.text.len());
        let page = read(&"<a href=?>y".repeat(100_000), &far.parse().unwrap());
        assert!(page.is_cut && page.text.len() <= 100_000 * 11 * limits::PAGE_TEXT_GROWTH_MAX);
        let small = read(&"<a href=?>y".repeat(10), &far.parse().unwrap());
        assert!(!small.is_cut && small.text.len() > 40_000, "{}", small.text.len());
    }
}
