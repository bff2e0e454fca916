# shellcheck shell=bash
# Processes of .ci/services: started apart from the terminal, known by process id and start time, so that a process id that
# the machine has given to another program since is never touched. Sourced; uses STATE, START_TIMEOUT and the functions
# <name>_launch, <name>_healthy, <name>_ports and <name>_stop_signal.

die() { echo "services: $*" >&2 && exit 1; }

log() { echo "$STATE/$1.log"; }

# started_at prints the time at which a process started, in clock ticks since boot, and fails where there is none.
started_at() {
	local stat fields
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -r -a fields <<<"${stat##*) }" # what follows the name, which may hold spaces: the state is the first
	[ "${fields[0]}" != Z ] && echo "${fields[19]}"
}

pid_of() { cut -d' ' -f1 "$STATE/$1.pid"; }

running() {
	local pid ticks
	read -r pid ticks <"$STATE/$1.pid" 2>/dev/null && [ "$(started_at "$pid")" = "$ticks" ]
} 2>/dev/null

# spawn NAME COMMAND... runs the command in a session of its own, without the locks, and notes its process id.
spawn() {
	local name=$1 pid
	shift
	if [ "$1" = postgres_as_user ] && [ "$(id -u)" = 0 ]; then
		shift
		set -- setpriv --reuid=postgres --regid=postgres --init-groups "$@"
	elif [ "$1" = postgres_as_user ]; then
		shift
	fi
	setsid "$@" </dev/null >>"$(log "$name")" 2>&1 8>&- 9>&- &
	pid=$!
	echo "$pid $(started_at "$pid")" >"$STATE/$name.pid"
}

launch() {
	local name=$1 port
	if running "$name"; then
		return 0
	fi
	for port in $("${name}_ports"); do
		if port_open "$port"; then
			echo "services: $name: port $port is in use by another program; TIDEMARK_PORT chooses others" >&2
			return 1
		fi
	done
	: >"$(log "$name")"
	("${name}_launch")
}

wait_healthy() {
	local name=$1 deadline=$((SECONDS + START_TIMEOUT))
	while running "$name"; do
		"${name}_healthy" && return 0
		[ "$SECONDS" -lt "$deadline" ] || break
		sleep 0.3
	done
	if running "$name"; then
		echo "services: $name did not become healthy within $START_TIMEOUT s; the end of its log:" >&2
	else
		echo "services: $name ended; the end of its log:" >&2
	fi
	tail -n 40 "$(log "$name")" >&2 || true
	terminate "$name"
	return 1
}

# terminate asks the process to end, waits half a minute, and then ends it.
terminate() {
	local name=$1 deadline=$((SECONDS + 30)) signal pid
	if running "$name"; then
		pid=$(pid_of "$name")
		signal=$("${name}_stop_signal")
		kill -s "$signal" "$pid" 2>/dev/null || true
		while running "$name"; do
			[ "$SECONDS" -lt "$deadline" ] || kill -s KILL "$pid" 2>/dev/null || true
			sleep 0.1
		done
		echo "$name stopped"
	fi
	rm -f "$STATE/$name.pid"
}

port_open() { (exec 7<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# http_status PORT PATH prints the status code of a GET.
http_status() {
	(
		exec 7<>"/dev/tcp/127.0.0.1/$1"
		printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$2" >&7
		read -r -t 10 _ code _ <&7 && echo "$code"
	) 2>/dev/null
}
