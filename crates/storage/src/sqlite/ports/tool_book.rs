//! Declared tools: kept as they were declared.

use agent::port::{BoxFuture, StoreError, StoredTool, ToolBook};
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::rows::{all, from_json, ms, run, time_at, to_json};

pub(crate) fn tools(db: &Connection) -> Outcome<Vec<StoredTool>> {
    all(db, "SELECT name, declaration, file, at FROM tool ORDER BY name", [], |row| {
        Ok(StoredTool {
            name: row.get(0)?,
            declaration: from_json(&row.get::<_, String>(1)?, "a tool")?,
            file: row.get(2)?,
            at: time_at(row, 3)?,
        })
    })
}

fn change(db: &Connection, put: &[StoredTool], gone: &[String]) -> Outcome<()> {
    for name in gone {
        run(db, "DELETE FROM tool WHERE name = ?", [name])?;
    }
    for tool in put {
        let sql = "INSERT INTO tool (name, declaration, file, at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET \
                   declaration = excluded.declaration, file = excluded.file, at = excluded.at";
        run(db, sql, params![tool.name, to_json(&tool.declaration)?, tool.file, ms(tool.at)])?;
    }
    Ok(())
}

impl ToolBook for Sqlite {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<StoredTool>, StoreError>> {
        let found = self.read(Caller::Api, |db, _| tools(db));
        Box::pin(async move { Ok(found.await?) })
    }

    fn change_tools(&self, put: Vec<StoredTool>, gone: Vec<String>) -> BoxFuture<'_, Result<(), StoreError>> {
        let done = self.write(move |db, _| change(db, &put, &gone));
        Box::pin(async move { Ok(done.await?) })
    }
}
