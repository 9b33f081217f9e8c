//! Spaces and their members. Every change raises the `rev` of the space and of its agents' facts.

use agent::approval::Withdrawn;
use agent::entity::{Member, Space};
use agent::id::{EntityId, SpaceId};
use agent::port::{Denial, NewSpace, SpaceChange};
use agent::registry;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::Outcome;
use crate::sqlite::tables::approvals;
use crate::sqlite::tables::facts::{touch, touch_space};
use crate::sqlite::tables::rows::{
    SPACE, bytes, entity_row, first, ms, run, space_at, space_row, u64_at, uuid_at, wake_on_code,
};

pub(super) fn open(db: &Connection, new: NewSpace) -> Outcome<Space> {
    if space_row(db, new.id)?.is_some() || !free_name(db, &new.name)? {
        return Err(Denial::NameTaken { what: "space", name: new.name }.into());
    }
    let sql = "INSERT INTO space (uuid, name, display_name, description, wake_on, created_at, active_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)";
    let wake_on = wake_on_code(new.wake_on);
    let row = params![bytes(new.id.0), new.name, new.display_name, new.description, wake_on, ms(new.at)];
    db.prepare_cached(sql)?.insert(row)?;
    for member in new.members {
        add_member(db, new.id, member, Member::ROLE, new.at)?;
    }
    read(db, new.id)
}

fn read(db: &Connection, space: SpaceId) -> Outcome<Space> {
    let sql = format!("SELECT {SPACE} FROM space s WHERE s.uuid = ?");
    Ok(first(db, &sql, [bytes(space.0)], |row| space_at(row, 0))?.ok_or_else(|| missing(space))?)
}

/// Whether a handle is free. That of a closed space is: the space keeps a former name.
fn free_name(db: &Connection, name: &str) -> Outcome<bool> {
    let sql = "SELECT id, uuid, closed FROM space WHERE name = ?";
    let holder = first(db, sql, [name], |row| Ok((row.get::<_, i64>(0)?, uuid_at(row, 1)?, row.get(2)?)))?;
    let Some((row, id, closed)) = holder else { return Ok(true) };
    if closed {
        run(db, "UPDATE space SET name = ? WHERE id = ?", params![registry::former_name(name, id), row])?;
        raise_rev(db, row)?;
        touch_space(db, row)?;
    }
    Ok(closed)
}

fn missing(space: SpaceId) -> Denial {
    Denial::NotFound { what: "space", name: space.to_string() }
}

/// Raises the `rev` of a space and returns it.
fn raise_rev(db: &Connection, space: i64) -> Outcome<u64> {
    let sql = "UPDATE space SET rev = rev + 1 WHERE id = ? RETURNING rev";
    Ok(first(db, sql, [space], |row| u64_at(row, 0))?.unwrap_or(0))
}

/// Changes names and rules. The events of earlier messages keep their states.
pub(super) fn amend(db: &Connection, space: SpaceId, change: &SpaceChange) -> Outcome<Space> {
    let row = space_row(db, space)?.ok_or_else(|| missing(space))?;
    let sql = "UPDATE space SET display_name = coalesce(?2, display_name), \
               description = coalesce(?3, description), wake_on = coalesce(?4, wake_on) \
               WHERE id = ?1 AND (display_name, description, wake_on) != \
               (coalesce(?2, display_name), coalesce(?3, description), coalesce(?4, wake_on))";
    let wake_on = change.wake_on.map(wake_on_code);
    if run(db, sql, params![row, change.display_name, change.description, wake_on])? == 1 {
        raise_rev(db, row)?;
        touch_space(db, row)?;
    }
    read(db, space)
}

/// Closes a space, or opens it again under the handle that it had.
pub(super) fn set_closed(db: &Connection, space: SpaceId, closed: bool) -> Outcome<Space> {
    let row = space_row(db, space)?.ok_or_else(|| missing(space))?;
    let found = read(db, space)?;
    if found.closed == closed {
        return Ok(found);
    }
    let name = if closed { &found.name } else { registry::handle_of(&found.name) };
    if *name != found.name && !free_name(db, name)? {
        return Err(Denial::NameTaken { what: "space", name: name.to_owned() }.into());
    }
    run(db, "UPDATE space SET closed = ?, name = ? WHERE id = ?", params![closed, name, row])?;
    raise_rev(db, row)?;
    touch_space(db, row)?;
    if closed {
        approvals::withdraw(db, space, None, Withdrawn::SpaceClosed)?;
    }
    read(db, space)
}

pub(super) fn add_member(
    db: &Connection,
    space: SpaceId,
    entity: EntityId,
    role: &str,
    at: Timestamp,
) -> Outcome<u64> {
    let (row, member) = rows(db, space, entity)?;
    let sql = "SELECT count(*), coalesce(sum(entity = ?2), 0) FROM member WHERE space = ?1";
    let counts = first(db, sql, params![row, member], |row| Ok((u64_at(row, 0)?, u64_at(row, 1)?)))?;
    let (members, already) = counts.unwrap_or_default();
    registry::add_member(space, members, already > 0)?;
    let sql = "INSERT INTO member (space, entity, role, since) VALUES (?, ?, ?, ?) \
               ON CONFLICT (space, entity) DO UPDATE SET role = excluded.role";
    run(db, sql, params![row, member, role, ms(at)])?;
    touch_space(db, row)?;
    raise_rev(db, row)
}

pub(super) fn remove_member(db: &Connection, space: SpaceId, entity: EntityId) -> Outcome<u64> {
    let (row, member) = rows(db, space, entity)?;
    if run(db, "DELETE FROM member WHERE space = ? AND entity = ?", params![row, member])? == 0 {
        return Err(Denial::NotMember { entity, space }.into());
    }
    touch_space(db, row)?;
    touch(db, member)?;
    approvals::withdraw(db, space, Some(member), Withdrawn::AgentLeft)?;
    raise_rev(db, row)
}

fn rows(db: &Connection, space: SpaceId, entity: EntityId) -> Outcome<(i64, i64)> {
    let row = space_row(db, space)?.ok_or_else(|| missing(space))?;
    let member = entity_row(db, entity.0)?
        .ok_or_else(|| Denial::NotFound { what: "entity", name: entity.to_string() })?;
    Ok((row, member))
}
