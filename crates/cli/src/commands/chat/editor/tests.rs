//! Presses keys and looks at the line.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn ctrl(c: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
}

fn type_in(editor: &mut Editor, text: &str) {
    for c in text.chars() {
        editor.press(key(KeyCode::Char(c)));
    }
}

fn typed(text: &str) -> Editor {
    let mut editor = Editor::new(None);
    type_in(&mut editor, text);
    editor
}

fn rows(editor: &Editor, width: usize, max: usize) -> Rows {
    editor.rows(&Screen::plain(Some(width), true), width, max)
}

fn enter(editor: &mut Editor) -> Option<EditorAction> {
    editor.press(key(KeyCode::Enter))
}

#[test]
fn keys_edit_the_line_at_the_cursor() {
    let mut editor = typed("one two three");
    for key in [ctrl('w'), key(KeyCode::Home), key(KeyCode::Delete), key(KeyCode::Char('O'))] {
        assert_eq!(editor.press(key), None);
    }
    editor.press(key(KeyCode::End));
    editor.press(key(KeyCode::Backspace));
    assert_eq!(editor.line.as_str(), "One two");
    editor.press(KeyEvent::new(KeyCode::Left, KeyModifiers::ALT));
    editor.press(ctrl('u'));
    assert_eq!(editor.line.as_str(), "two");
    let mut family = typed("x👩‍👩‍👧");
    family.press(key(KeyCode::Backspace));
    assert_eq!(family.line.as_str(), "x", "what is shown as one character is deleted as one");
}

#[test]
fn an_interrupt_clears_the_line_first() {
    let mut editor = typed("x");
    assert_eq!(editor.press(ctrl('c')), None);
    assert_eq!(editor.press(ctrl('c')), Some(EditorAction::Interrupt));
    assert_eq!(editor.press(ctrl('d')), Some(EditorAction::Leave));
    assert_eq!(enter(&mut editor), None);
}

#[test]
fn sent_lines_can_be_recalled_and_the_new_one_is_kept() {
    let mut editor = typed("first");
    assert_eq!(enter(&mut editor), Some(EditorAction::Send("first".into())));
    type_in(&mut editor, "n");
    editor.press(key(KeyCode::Up));
    assert_eq!(editor.line.as_str(), "first");
    editor.press(key(KeyCode::Up));
    editor.press(key(KeyCode::Down));
    assert_eq!(editor.line.as_str(), "n");
}

#[test]
fn the_history_is_kept_in_a_file_that_only_its_owner_reads() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history");
    let mut editor = Editor::new(Some(file.clone()));
    editor.paste("two\nlines");
    enter(&mut editor);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mut later = Editor::new(Some(file));
    later.press(key(KeyCode::Up));
    assert_eq!(later.line.as_str(), "two\nlines");
    let mut nowhere = Editor::new(Some(dir.path().join("none/history")));
    type_in(&mut nowhere, "x");
    assert_eq!(enter(&mut nowhere), Some(EditorAction::Send("x".into())), "nothing stops the conversation");
}

#[test]
fn the_history_is_searched_with_ctrl_r() {
    let mut editor = Editor::new(None);
    for line in ["green tea", "black tea", "coffee"] {
        type_in(&mut editor, line);
        enter(&mut editor);
    }
    type_in(&mut editor, "new");
    editor.press(ctrl('r'));
    type_in(&mut editor, "tea");
    assert_eq!(editor.line.as_str(), "black tea");
    assert_eq!(rows(&editor, 60, 1).rows, ["(search: tea) black tea"]);
    editor.press(ctrl('r'));
    assert_eq!(editor.line.as_str(), "green tea");
    editor.press(ctrl('r'));
    assert_eq!(editor.line.as_str(), "green tea", "there is no older one");
    editor.press(key(KeyCode::Esc));
    assert_eq!(editor.line.as_str(), "new");
    editor.press(ctrl('r'));
    type_in(&mut editor, "cof");
    assert_eq!(enter(&mut editor), Some(EditorAction::Send("coffee".into())));
}

#[test]
fn a_paste_with_line_ends_is_one_text() {
    let mut editor = Editor::new(None);
    editor.paste("a\r\n\tb\x1b[2J");
    assert_eq!(rows(&editor, 60, 1).rows, ["> a^J    b^[[2J"], "what is shown cannot control the terminal");
    assert_eq!(enter(&mut editor), Some(EditorAction::Send("a\n\tb\x1b[2J".into())));
}

#[test]
fn a_paste_is_inserted_whole_and_refused_aloud_if_it_is_too_long() {
    let mut editor = Editor::new(None);
    assert_eq!(editor.paste(&"é".repeat(MESSAGE_MAX_BYTES / 2)), None);
    let Some(EditorAction::Send(text)) = enter(&mut editor) else { panic!("not sent") };
    assert_eq!(text.len(), MESSAGE_MAX_BYTES);
    editor.paste(&"x".repeat(MESSAGE_MAX_BYTES + 1));
    let Some(EditorAction::Note(note)) = enter(&mut editor) else { panic!("no note") };
    assert!(note.contains("at most 65536 bytes, this text has 65537"), "{note}");
    assert_eq!(editor.line.len(), MESSAGE_MAX_BYTES + 1, "nothing is lost");
    let Some(EditorAction::Note(note)) = editor.paste(&"x".repeat(TYPED_MAX)) else { panic!("no note") };
    assert!(note.starts_with("(nothing was pasted"), "{note}");
    assert_eq!(editor.line.len(), MESSAGE_MAX_BYTES + 1);
}

#[test]
fn tab_completes_commands_and_names() {
    let check = |text: &str, completed: &str| {
        let mut editor = typed(text);
        editor.set_words(["/quit", "/who", "ada", "Adam", "adamant"].map(str::to_owned).into_iter());
        let action = editor.press(key(KeyCode::Tab));
        let shown = match action {
            Some(EditorAction::Note(list)) => format!("{} [{list}]", editor.line.as_str()),
            _ => editor.line.as_str().to_owned(),
        };
        assert_eq!(shown, completed, "{text}");
    };
    check("/q", "/quit ");
    check("hi @ADAM", "hi @ADAM [Adam  adamant]");
    check("hi adama", "hi adamant ");
    check("hi ad", "hi ad [Adam  ada  adamant]");
    check("hi /q", "hi /q");
    check("zzz", "zzz");
    check("", "");
}

#[test]
fn a_long_line_wraps_and_the_cursor_stays_in_sight() {
    let shown = rows(&typed("abcdef"), 4, 10);
    assert_eq!(shown, Rows { rows: vec!["> ab".into(), "cdef".into(), String::new()], cursor: (2, 0) });
    let shown = rows(&typed("漢字"), 5, 10);
    assert_eq!(shown, Rows { rows: vec!["> 漢".into(), "字".into()], cursor: (1, 2) });
    let mut long = typed(&"x".repeat(100));
    assert_eq!(rows(&long, 10, 3).rows.len(), 3);
    long.press(key(KeyCode::Home));
    assert_eq!(rows(&long, 10, 3).cursor, (0, 2));
}
