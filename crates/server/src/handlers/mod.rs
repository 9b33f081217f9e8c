//! The route table in one view: every route with its access policy. What a route does stands in the
//! file of its subject.

use utoipa_axum::routes as doc;

use crate::auth::Access;
use crate::routes::Routes;

pub(crate) mod agents;
mod calls;
mod entities;
mod events;
pub(crate) mod messages;
mod meta;
mod minds;
mod recent;
mod spaces;
mod streams;

/// All routes of the doors.
pub(crate) fn all(routes: Routes) -> Routes {
    use Access::{Admin, AnyKey, Member, Public};
    routes
        .add(Public, doc!(meta::health))
        .add(Public, doc!(meta::ready))
        .add(Public, doc!(meta::document))
        .add(AnyKey, doc!(meta::whoami))
        .add(Admin, doc!(agents::create))
        .add(Admin, doc!(agents::list))
        .add(Admin, doc!(agents::get))
        .add(Admin, doc!(agents::amend))
        .add(Admin, doc!(agents::suspend))
        .add(Admin, doc!(agents::resume))
        .add(Admin, doc!(agents::retire))
        .add(AnyKey, doc!(agents::cancel))
        .add(Admin, doc!(calls::open))
        .add(Admin, doc!(calls::cancel))
        .add(Admin, doc!(events::send))
        .add(Admin, doc!(events::get))
        .add(Admin, doc!(events::cancel))
        .add(Admin, doc!(events::retry))
        .add(Admin, doc!(events::give_up))
        .add(Admin, doc!(events::inbox))
        .add(Admin, doc!(minds::runs))
        .add(Admin, doc!(minds::run))
        .add(Admin, doc!(minds::consciousness))
        .add(Admin, doc!(minds::facts))
        .add(Admin, doc!(minds::mind))
        .add(Admin, doc!(recent::list))
        .add(Admin, doc!(streams::everything))
        .add(Admin, doc!(streams::agent))
        .add(Admin, doc!(entities::create))
        .add(Admin, doc!(entities::list))
        .add(Admin, doc!(entities::get))
        .add(Admin, doc!(entities::make_key))
        .add(Admin, doc!(spaces::open))
        .add(AnyKey, doc!(spaces::list))
        .add(Member, doc!(spaces::get))
        .add(Admin, doc!(spaces::amend))
        .add(Admin, doc!(spaces::close))
        .add(Member, doc!(spaces::members))
        .add(Admin, doc!(spaces::add_member))
        .add(Admin, doc!(spaces::remove_member))
        .add(Member, doc!(messages::say))
        .add(Member, doc!(messages::list))
        .add(AnyKey, doc!(messages::get))
        .add(Member, doc!(streams::space))
}
