//! Whether this machine is as the settings need it: the service user, the files that it must read, sockets and addresses.
//! It looks and changes nothing; what the settings say by themselves has been checked before.
//! `pgfleet config check` and `pgfleet init` call it.

use std::{
    ffi::CString,
    fs,
    io::ErrorKind,
    net::{IpAddr, TcpListener, ToSocketAddrs},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{Group, User, geteuid, getgrouplist};

use crate::{Problem, Settings, fault::Fault, problem::Place};

const READ: u32 = 4;
const ENTER: u32 = 1;

/// Why a start on this machine would fail; nothing that depends on what runs there now.
pub fn readiness(settings: &Settings) -> Vec<Problem> {
    let mut found = Vec::new();
    service_user(settings, &mut found);
    places(settings, &mut found);
    addresses(settings, &mut found);
    let problem = |(key, fault): (String, Fault)| Problem::at(&Place::Nowhere, &key, fault);
    found.into_iter().map(problem).collect()
}

/// The first directory on the way to `path` that the user cannot enter; none if there is no such user.
pub fn closed_to(user: &str, path: &Path) -> Option<PathBuf> {
    Account::named(user).ok().flatten().and_then(|account| account.closed(path))
}

type Found = Vec<(String, Fault)>;

/// Whom the daemon becomes.
struct Account {
    name: String,
    uid: u32,
    groups: Vec<u32>,
}

impl Account {
    fn named(name: &str) -> nix::Result<Option<Self>> {
        let Some(user) = User::from_name(name)? else { return Ok(None) };
        let text = CString::new(name).map_err(|_| nix::Error::EINVAL)?;
        let groups = getgrouplist(&text, user.gid)?;
        Ok(Some(Self {
            name: name.to_owned(),
            uid: user.uid.as_raw(),
            groups: groups.iter().map(|group| group.as_raw()).collect(),
        }))
    }

    /// Whether the permission bits give this account that right; what cannot be looked at is taken to do so.
    fn may(&self, path: &Path, right: u32) -> bool {
        let Ok(metadata) = fs::metadata(path) else { return true };
        let shift = match (self.uid == metadata.uid(), self.groups.contains(&metadata.gid())) {
            (true, _) => 6,
            (false, true) => 3,
            (false, false) => 0,
        };
        self.uid == 0 || metadata.mode() >> shift & right != 0
    }

    fn closed(&self, path: &Path) -> Option<PathBuf> {
        let mut on_the_way: Vec<&Path> = path.ancestors().skip(1).collect();
        on_the_way.reverse();
        on_the_way.into_iter().find(|dir| !self.may(dir, ENTER)).map(Path::to_owned)
    }
}

/// Root's daemon becomes `user`, who must be there and must be able to read the files.
fn service_user(settings: &Settings, found: &mut Found) {
    let Some(name) = &settings.global.user else { return };
    let account = match Account::named(name) {
        Ok(Some(account)) => account,
        Ok(None) | Err(_) => {
            let fault = Fault::new(
                format!("there is no user {name} on this machine"),
                "create it, or set user to one that there is",
            );
            return found.push(("user".to_owned(), fault));
        }
    };
    if account.uid == 0 {
        let fault = Fault::new(
            format!("{name} has the uid of root, as which pgfleet does not serve"),
            "set it to another user",
        );
        return found.push(("user".to_owned(), fault));
    }
    if !geteuid().is_root() {
        return;
    }
    let global = &settings.global;
    let keys = [
        ("auth_file", &global.auth_file),
        ("auth_hba_file", &global.auth_hba_file),
        ("auth_ident_file", &global.auth_ident_file),
        ("client_tls_key_file", &global.client_tls_key_file),
        ("client_tls_cert_file", &global.client_tls_cert_file),
        ("client_tls_ca_file", &global.client_tls_ca_file),
        ("server_tls_key_file", &global.server_tls_key_file),
        ("server_tls_cert_file", &global.server_tls_cert_file),
        ("server_tls_ca_file", &global.server_tls_ca_file),
    ];
    let keys = keys.into_iter().filter_map(|(key, file)| Some((key, file.as_ref()?)));
    let main = settings.files.first().map(|file| ("config", file));
    found.extend(
        main.into_iter().chain(keys).filter_map(|(key, file)| unreadable(&account, key, file)),
    );
}

fn unreadable(account: &Account, key: &str, file: &Path) -> Option<(String, Fault)> {
    let (name, shown) = (&account.name, file.display());
    let fault = match account.closed(file) {
        Some(dir) => Fault::new(
            format!("{name} cannot enter {}, so a reload could not read {shown}", dir.display()),
            format!("move the file to a directory that {name} can enter, such as /etc/pgfleet"),
        ),
        None if !account.may(file, READ) => Fault::new(
            format!("{name} cannot read {shown}, and a reload happens as that user"),
            format!("run chown {name} {shown}"),
        ),
        None => return None,
    };
    Some((key.to_owned(), fault))
}

/// Directories in which the daemon makes files must be there.
fn places(settings: &Settings, found: &mut Found) {
    let global = &settings.global;
    let is_ours = |dir: &&Path| Some(*dir) == global.runtime_dir.as_deref();
    let is_file = |dir: &&Path| !dir.to_string_lossy().starts_with('@');
    let sockets = global.unix_socket_dir.as_deref().filter(is_file).filter(|dir| !is_ours(dir));
    let parent =
        |file: &'_ Option<PathBuf>| file.as_deref().and_then(Path::parent).map(Path::to_owned);
    let dirs = [
        ("unix_socket_dir", sockets.map(Path::to_owned)),
        ("logfile", parent(&global.logfile)),
        ("pidfile", parent(&global.pidfile)),
    ];
    for (key, dir) in dirs {
        if let Some(dir) = dir.filter(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
            let fault = Fault::new(
                format!("the directory {} is not there", dir.display()),
                format!("run mkdir {}, or set {key} to a place that there is", dir.display()),
            );
            found.push((key.to_owned(), fault));
        }
    }
    if let Some(group) = &global.unix_socket_group
        && !matches!(Group::from_name(group), Ok(Some(_)))
    {
        let fault = Fault::new(
            format!("there is no group {group} on this machine"),
            "create it, or set unix_socket_group to one that there is",
        );
        found.push(("unix_socket_group".to_owned(), fault));
    }
}

/// Addresses to listen on must be this machine's; whether their port is free is for the start to see.
fn addresses(settings: &Settings, found: &mut Found) {
    let given = settings.global.listen_addr.iter().filter(|address| *address != "*");
    for address in given {
        if let Some(fault) = unusable(address) {
            found.push(("listen_addr".to_owned(), fault));
        }
    }
}

fn unusable(address: &str) -> Option<Fault> {
    let remedy = "write an address of this machine, or * for all";
    let resolved: Vec<IpAddr> = match (address, 0).to_socket_addrs() {
        Ok(found) => found.map(|found| found.ip()).collect(),
        Err(error) => {
            return Some(Fault::new(format!("{address} cannot be resolved: {error}"), remedy));
        }
    };
    let is_foreign = |ip: &IpAddr| {
        TcpListener::bind((*ip, 0)).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
    };
    resolved
        .iter()
        .all(is_foreign)
        .then(|| Fault::new(format!("{address} is no address of this machine"), remedy))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn brief(settings: &Settings) -> Vec<String> {
        readiness(settings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_not_there_is_told_with_the_way_out() {
        let mut settings = Settings::default();
        settings.global.unix_socket_dir = None;
        assert_eq!(brief(&settings), Vec::<String>::new());
        settings.global.user = Some("nobody-of-that-name".to_owned());
        settings.global.unix_socket_group = Some("no-such-group".to_owned());
        settings.global.logfile = Some("/no/such/place/p.log".into());
        settings.global.listen_addr = ["127.0.0.1", "192.0.2.77", "*"].map(str::to_owned).into();
        assert_eq!(
            brief(&settings),
            [
                "user: there is no user nobody-of-that-name on this machine; create it, or set user to one that there is",
                "logfile: the directory /no/such/place is not there; run mkdir /no/such/place, or set logfile to a place that there is",
                "unix_socket_group: there is no group no-such-group on this machine; create it, or set unix_socket_group to one that there is",
                "listen_addr: 192.0.2.77 is no address of this machine; write an address of this machine, or * for all",
            ]
        );
        settings.global.user = Some("root".to_owned());
        assert!(brief(&settings)[0].starts_with("user: root has the uid of root"));
    }

    #[test]
    fn permission_bits_count_for_owner_group_and_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let account =
            |uid, groups: &[u32]| Account { name: "x".to_owned(), uid, groups: groups.to_vec() };
        let owner = account(metadata.uid().max(1), &[]);
        let (member, other) = (account(54_321, &[metadata.gid()]), account(54_321, &[]));
        for (mode, by_member, by_other) in
            [(0o600, false, false), (0o640, true, false), (0o604, false, true)]
        {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                (member.may(&file, READ), other.may(&file, READ)),
                (by_member, by_other),
                "{mode:o}"
            );
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(other.closed(&file).as_deref(), Some(dir.path()));
        assert_eq!(account(0, &[]).closed(&file), None);
        if metadata.uid() != 0 {
            assert_eq!(owner.closed(&file), None);
        }
    }
}
