//! The SHOW statements: every table of the console.
//!
//! It picks what each table needs (workers' rows, the view of the fleet, or both) and turns values into the
//! text that clients get. It changes nothing. Statements call it.

mod catalog;
mod fleet;
mod settings;
mod stats;
mod table;

use super::desk::Desk;
use super::input::Refusal;
use super::statement::Show;
use super::totals::Summary;
use super::view::View;
use crate::link::table::{Outcome, Question, Reply};
use table::Table;

/// What SHOW HELP prints, in PgBouncer's form.
const HELP: &str = "Console usage\n\
    \tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION\n\
    \tSHOW PEERS|PEER_POOLS\n\
    \tSHOW FDS|SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE\n\
    \tSHOW DNS_HOSTS|DNS_ZONES\n\
    \tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS\n\
    \tSHOW FLEET|WORKERS\n\
    \tSET key = arg\n\
    \tRELOAD\n\
    \tPAUSE [<db>]\n\
    \tRESUME [<db>]\n\
    \tDISABLE <db>\n\
    \tENABLE <db>\n\
    \tRECONNECT [<db>]\n\
    \tKILL [<db>]\n\
    \tKILL_CLIENT <client_id>\n\
    \tSUSPEND\n\
    \tWAIT_CLOSE [<db>]\n\
    \tSCALE n|auto\n\
    \tRESTART\n\
    \tSHUTDOWN\n\
    \tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS|WAIT_FOR_TRANSACTIONS";

/// Runs one SHOW.
pub(super) async fn run(desk: &Desk, show: Show) -> Result<Reply, Refusal> {
    let (notices, table) = match show {
        Show::Help => {
            let outcome = Outcome::Done { tag: "SHOW".to_owned() };
            return Ok(Reply { notices: vec![HELP.to_owned()], outcome });
        }
        Show::Version => (Vec::new(), settings::version()),
        Show::Fleet => (Vec::new(), fleet::fleet(&desk.view().await?)),
        Show::State => (Vec::new(), fleet::state(&desk.view().await?)),
        Show::Config => (Vec::new(), settings::config(&desk.view().await?.settings)),
        Show::Workers => {
            let gathered = desk.gather(Question::Workers).await?;
            (gathered.notices(), fleet::workers(&desk.view().await?, &gathered))
        }
        Show::Databases => {
            let gathered = desk.gather(Question::Databases).await?;
            let counts = gathered.merged(Question::Databases);
            let View { settings, switches, .. } = desk.view().await?;
            (gathered.notices(), catalog::databases(&settings, &switches, &counts))
        }
        Show::Users => {
            let gathered = desk.gather(Question::Users).await?;
            let counts = gathered.merged(Question::Users);
            (gathered.notices(), catalog::users(&desk.view().await?.settings, &counts))
        }
        Show::Lists => {
            let gathered = desk.gather(Question::Lists).await?;
            let counts = gathered.merged(Question::Lists);
            (gathered.notices(), catalog::lists(&desk.view().await?.settings, &counts))
        }
        Show::Peers => (Vec::new(), fleet::peers()),
        Show::PeerPools => (Vec::new(), fleet::peer_pools()),
        Show::Sockets => gathered(desk, Question::Sockets).await?,
        Show::ActiveSockets => gathered(desk, Question::ActiveSockets).await?,
        Show::Fds => gathered(desk, Question::Fds).await?,
        Show::Pools => gathered(desk, Question::Pools).await?,
        Show::Clients => gathered(desk, Question::Clients).await?,
        Show::Servers => gathered(desk, Question::Servers).await?,
        Show::Mem => gathered(desk, Question::Mem).await?,
        Show::DnsHosts => gathered(desk, Question::DnsHosts).await?,
        Show::DnsZones => gathered(desk, Question::DnsZones).await?,
        Show::Stats => statistics(desk, stats::both).await?,
        Show::StatsTotals => statistics(desk, stats::totals_only).await?,
        Show::StatsAverages => statistics(desk, stats::averages_only).await?,
        Show::Totals => statistics(desk, stats::of_the_fleet).await?,
    };
    Ok(Reply { notices, outcome: table.into_outcome() })
}

/// A table that workers fill alone.
async fn gathered(desk: &Desk, question: Question) -> Result<(Vec<String>, Table), Refusal> {
    let gathered = desk.gather(question).await?;
    Ok((gathered.notices(), Table::of_rows(question.spec(), &gathered.merged(question))))
}

/// A table of statistics. The workers' answers go into the totals of the fleet, which also know of the dead.
async fn statistics(
    desk: &Desk,
    lay_out: fn(&Summary) -> Table,
) -> Result<(Vec<String>, Table), Refusal> {
    let notices = desk.gather(Question::Stats).await?.notices();
    Ok((notices, lay_out(&desk.view().await?.totals)))
}
