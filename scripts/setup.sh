#!/bin/sh
# Installs what the demo, the tests or the bench need and the machine lacks: `setup.sh demo|test|bench`.
# Debian and Ubuntu, with their own packages; the drivers of the tests go into target/venv.
# It asks nothing, changes no service, and does nothing when all is there.
set -eu

purpose=${1:-test}
cd "$(dirname "$0")/.."
wanted=

# need WHAT PACKAGE WHY: the package is installed if the command WHAT is not there.
need() {
    command -v "$1" >/dev/null 2>&1 || {
        echo "setup: $2 is missing: $3"
        wanted="$wanted $2"
    }
}

has_postgres() {
    command -v initdb >/dev/null 2>&1 && return 0
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return 0
    done
    return 1
}

need cargo "the Rust toolchain" "it builds pgfleet"
need cc gcc "Rust links with it"
has_postgres || {
    echo "setup: postgresql is missing: the $purpose runs against a real Postgres"
    wanted="$wanted postgresql"
}
need psql postgresql-client "a client of the $purpose"
need pgbench postgresql-contrib "it makes the load"
case $purpose in
    demo) ;;
    test)
        need python3 python3 "psycopg, a driver of the tests, runs in it"
        python3 -c 'import venv, ensurepip' 2>/dev/null || {
            echo "setup: python3-venv is missing: the drivers of the tests live in one"
            wanted="$wanted python3-venv"
        }
        for library in libpam.so libpam_wrapper.so; do
            [ -n "$(find /usr/lib /usr/lib64 -maxdepth 2 -name "$library" 2>/dev/null)" ] || {
                echo "setup: $library is missing: the build with PAM is tested with it"
                wanted="$wanted libpam0g-dev libpam-wrapper"
            }
        done
        [ -x /usr/sbin/slapd ] || {
            echo "setup: slapd is missing: logins by LDAP are tested against one that the test starts"
            wanted="$wanted slapd"
        }
        ;;
    bench)
        need python3 python3 "the bench is written in it"
        need pgbouncer pgbouncer "it is what pgfleet is measured against"
        need strace strace "it counts system calls"
        ;;
    *)
        echo "setup: unknown purpose $purpose: demo, test or bench" >&2
        exit 2
        ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: install Rust first; nothing else has to be done by hand" >&2
    exit 1
fi

if [ -n "$wanted" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: there is no apt-get here; install by hand what these Debian packages hold:$wanted" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            echo "setup: neither root nor sudo; ask an administrator for: apt-get install$wanted" >&2
            exit 1
        }
        as_root=sudo
    fi
    echo "setup: installing$wanted"
    $as_root apt-get update -q
    case $wanted in
        *slapd*)
            # The tests bring a configuration of their own: the machine gets no directory from this.
            echo "slapd slapd/no_configuration boolean true" | $as_root debconf-set-selections
            ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $wanted
fi

if [ "$purpose" = test ]; then
    venv=${CARGO_TARGET_DIR:-target}/venv
    stamp=$venv/requirements.txt
    if ! cmp -s tests/requirements.txt "$stamp"; then
        echo "setup: installing the Python drivers of the tests into $venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
        cp tests/requirements.txt "$stamp"
    fi
fi
