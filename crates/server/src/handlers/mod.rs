//! The list of all routes with their access policies. Each submodule handles the routes of one subject.

use utoipa_axum::routes as doc;

use crate::auth::Access;
use crate::routes::Routes;

pub(crate) mod agents;
mod calls;
mod entities;
mod events;
mod history;
mod keys;
pub(crate) mod messages;
mod meta;
mod recent;
mod spaces;
mod streams;

/// Adds all routes of the API.
pub(crate) fn all(routes: Routes) -> Routes {
    use Access::{Admin, AnyKey, Member, Person, Public, Service};
    routes
        .add(Public, doc!(meta::health))
        .add(Public, doc!(meta::ready))
        .add(Public, doc!(meta::document))
        .add(AnyKey, doc!(meta::whoami))
        .add(Admin, doc!(agents::create))
        .add(Admin, doc!(agents::list))
        .add(Admin, doc!(agents::get))
        .add(Admin, doc!(agents::change_agent))
        .add(Admin, doc!(agents::suspend))
        .add(Admin, doc!(agents::resume))
        .add(Admin, doc!(agents::retire))
        .add(Person, doc!(agents::cancel))
        .add(Admin, doc!(calls::open))
        .add(Admin, doc!(calls::cancel))
        .add(Service, doc!(events::send))
        .add(Admin, doc!(events::get))
        .add(Admin, doc!(events::cancel))
        .add(Admin, doc!(events::retry))
        .add(Admin, doc!(events::drop_event))
        .add(Admin, doc!(events::inbox))
        .add(Admin, doc!(history::runs))
        .add(Admin, doc!(history::run))
        .add(Admin, doc!(history::consciousness))
        .add(Admin, doc!(history::facts))
        .add(Admin, doc!(history::context))
        .add(Admin, doc!(recent::list))
        .add(Admin, doc!(streams::server_stream))
        .add(Admin, doc!(streams::agent))
        .add(Admin, doc!(entities::create))
        .add(Admin, doc!(entities::list))
        .add(Admin, doc!(entities::get))
        .add(Admin, doc!(keys::create))
        .add(Admin, doc!(keys::list))
        .add(Admin, doc!(keys::rotate))
        .add(Admin, doc!(keys::revoke))
        .add(Admin, doc!(spaces::open))
        .add(Person, doc!(spaces::list))
        .add(Member, doc!(spaces::get))
        .add(Admin, doc!(spaces::change_space))
        .add(Admin, doc!(spaces::close))
        .add(Member, doc!(spaces::members))
        .add(Admin, doc!(spaces::add_member))
        .add(Admin, doc!(spaces::remove_member))
        .add(Member, doc!(messages::post_message))
        .add(Member, doc!(messages::list))
        .add(Person, doc!(messages::get))
        .add(Member, doc!(streams::space))
}
