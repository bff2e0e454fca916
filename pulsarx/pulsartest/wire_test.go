package pulsartest_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

var record = flag.Bool("record", false, "record testdata/wire from the broker at PULSAR_URL")

// TestWire plays the scripts of testdata/wire, whose answers were recorded from Pulsar 4.0.8, to a broker and compares what it
// answers. A line is a command ("> connection command | metadata | payload") or the answer that is expected next ("< ..."), and "! connection" hangs up.
// "@ method path body" calls an admin route, where $A is the topic's path, and "= path answer" waits for an answer.
// "% status method path body" calls one that has to answer with the status, and "? topic status statistics" waits until reducedStats are these.
// "^ topic true" waits until lists have a topic, or have it no more.
// "+ topic subscription n" waits until a subscription has so many consumers.
// "~ topic subscription field value" waits until a real broker has come so far, which carries some commands out later than the next. A payload
// $X5 is five times an x. Topics begin with $T, which is $P without its domain; $L0, $L1 ... stand for ledgers in the order in which they appear.
func TestWire(t *testing.T) {
	scripts, err := filepath.Glob("testdata/wire/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts:", err)
	}
	for _, file := range scripts {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, connect := range brokers {
				t.Run(name, func(t *testing.T) {
					on := connect(t)
					playScript(t, on, file)
				})
			}
		})
	}
}

func playScript(t *testing.T, on target, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if !*record {
		play(t, on, file, lines)
		return
	}
	if on.broker != nil {
		return
	}
	s := newScript(t, on)
	defer s.hangUp()
	var out bytes.Buffer
	for _, line := range lines {
		if strings.HasPrefix(line, "< ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if s.step(line); strings.HasPrefix(line, "#") {
			continue
		}
		for _, name := range s.names() {
			for answer := s.answer(name, 600*time.Millisecond); answer != ""; answer = s.answer(name, 600*time.Millisecond) {
				fmt.Fprintln(&out, "<", name, answer)
			}
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func newScript(t *testing.T, on target) *script {
	t.Helper()
	if on.broker == nil {
		on.own(t)
	}
	return &script{
		t: t, target: on, topic: on.topic(t, "wire"), conns: map[string]*rawConn{}, early: map[string][]string{}, shared: map[string]bool{}, wait: patience,
	}
}

var owned sync.Once

// own makes a real broker the owner of whatever name a topic may have, which it becomes where one is looked up; clients do so, these scripts
// do not.
func (on target) own(t *testing.T) {
	t.Helper()
	owned.Do(func() {
		for i := range 100 { // of which some are in each of the parts that Pulsar shares out
			r, err := http.Get(fmt.Sprint(on.adminURL, "/lookup/v2/topic/persistent/public/default/wire-", i))
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
		}
	})
}

// play carries a script out, and compares the answers. Pulsar 4.0.8 at times does not dispatch what is there, until more comes: where a
// real broker leaves an answer out, the script is played again on another topic. It fails where the same answer is left out five times.
func play(t *testing.T, on target, name string, lines []string) {
	t.Helper()
	silent := map[int]int{}
	for {
		s := newScript(t, on)
		if on.broker == nil {
			s.wait = 10 * time.Second
		}
		at := s.play(name, lines)
		s.hangUp()
		silent[at]++
		switch {
		case at < 0:
			return
		case silent[at] == 5:
			t.Fatalf("%s:%d: no answer, five times; want %s\nafter\n%s", name, at+1, lines[at], strings.Join(lines[max(at-6, 0):at], "\n"))
		}
		t.Logf("%s:%d: no answer", name, at+1)
	}
}

// play returns the line whose answer did not come, or -1.
func (s *script) play(name string, lines []string) (silent int) {
	s.t.Helper()
	for n, line := range lines {
		answer, ok := strings.CutPrefix(line, "< ")
		if !ok {
			s.place = fmt.Sprint(name, ":", n+1)
			s.step(line)
			continue
		}
		conn, want, _ := strings.Cut(answer, " ")
		switch got := s.expect(conn, want); {
		case got == "":
			return n
		case !same(got, want):
			s.t.Fatalf("%s:%d:\n got %s\nwant %s\nafter\n%s", name, n+1, got, want, strings.Join(lines[max(n-6, 0):n], "\n"))
		}
	}
	s.quiet()
	return -1
}

// step carries a line out that is no answer.
func (s *script) step(line string) {
	op, rest, _ := strings.Cut(line, " ")
	switch op {
	case ">":
		s.command(rest)
	case "@":
		s.admin(s.fill(rest))
	case "=":
		path, want, _ := strings.Cut(s.fill(rest), " ")
		eventually(s.t, func() bool { return strings.Contains(s.target.must(s.t, "GET", path, ""), want) })
	case "%":
		s.call(rest)
	case "?":
		s.compareStats(rest)
	case "^":
		name, there, _ := strings.Cut(s.fill(rest), " ")
		eventually(s.t, func() bool {
			list := s.target.must(s.t, "GET", "/persistent/public/default", "")
			return fmt.Sprint(strings.Contains(list, `"`+name+`"`)) == there
		})
	case "+":
		of := strings.Fields(s.fill(rest))
		eventually(s.t, func() bool {
			return fmt.Sprint(len(s.target.stats(s.t, of[0]).Subscriptions[of[1]].Consumers)) == of[2]
		})
	case "~":
		s.await(strings.Fields(s.fill(rest)))
	case "!":
		s.conn(rest).leave(s.t)
		delete(s.conns, rest)
		delete(s.early, rest)
	}
}

type script struct {
	t       *testing.T
	target  target
	topic   string
	conns   map[string]*rawConn
	early   map[string][]string // answers that came before the expected one
	ledgers []string
	wait    time.Duration   // for an answer
	place   string          // of the line that is carried out
	shared  map[string]bool // consumers of a Key_Shared subscription, as they are named in what they are sent
	told    []string        // to connections, which a real broker may tell once more
}

var watchedTopic = regexp.MustCompile(`^WATCH_TOPIC_LIST_SUCCESS.* topic=(\S+)|^WATCH_TOPIC_UPDATE .* new_topics=(\S+)|^(REACHED_END_OF_TOPIC .*)`)

// again tells whether a connection was told the same before: the end of a topic, or that there is one, of which a watcher may hear after it
// was listed.
func (s *script) again(conn, text string) bool {
	m := watchedTopic.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	news := conn + " " + m[1] + m[2] + m[3]
	if slices.Contains(s.told, news) {
		return true
	}
	s.told = append(s.told, news)
	return false
}

func (s *script) names() []string {
	var names []string
	for name := range s.conns {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *script) hangUp() {
	for _, c := range s.conns {
		c.close()
	}
}

// conn is a connection by name, opened and introduced at its first use.
func (s *script) conn(name string) *rawConn {
	c := s.conns[name]
	if c == nil {
		c = dialRaw(s.t, s.target.url)
		s.conns[name] = c
		if !strings.HasSuffix(name, "?") { // those introduce themselves
			c.send(s.t, `type: CONNECT connect { client_version: "test" protocol_version: 20 }`, "", "")
			if got := s.answer(name, patience); !strings.HasPrefix(got, "CONNECTED") {
				s.t.Fatal("no connection:", got)
			}
		}
	}
	return c
}

// fill puts names and numbers in their places.
func (s *script) fill(line string) string {
	line = strings.NewReplacer("$T", s.topic, "$P", strings.TrimPrefix(s.topic, "persistent://"), "$A", topicPath(s.topic)).Replace(line)
	for i, ledger := range s.ledgers {
		line = strings.ReplaceAll(line, fmt.Sprintf("$L%d", i), ledger)
	}
	return line
}

// admin calls a route, which must not fail.
func (s *script) admin(line string) {
	parts := append(strings.SplitN(line, " ", 3), "")
	s.target.must(s.t, parts[0], parts[1], parts[2])
}

// call calls a route and compares its status.
func (s *script) call(line string) {
	parts := append(strings.SplitN(s.fill(line), " ", 4), "")
	if status, body := s.target.admin(parts[1], parts[2], parts[3]); fmt.Sprint(status) != parts[0] {
		s.t.Errorf("%s: %s: %d %s", s.place, line, status, body)
	}
}

func (s *script) compareStats(line string) {
	parts := strings.SplitN(line, " ", 3)
	want, got := parts[1]+" "+parts[2], ""
	for start := time.Now(); got != want; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			s.t.Fatalf("%s: statistics of %s:\n got %s\nwant %s", s.place, parts[0], differing(got, want), differing(want, got))
		}
		status, body := s.target.admin("GET", topicPath(s.fill(parts[0]))+"/stats?getPreciseBacklog=true", "")
		got = fmt.Sprint(status, " ", reducedStats(body))
	}
}

// differing are the fields of one's statistics that the other has not, by their first and last.
func differing(text, other string) string {
	fields, others := strings.SplitAfter(text, ","), strings.SplitAfter(other, ",")
	for len(fields) > 1 && len(others) > 1 && fields[0] == others[0] {
		fields, others = fields[1:], others[1:]
	}
	for len(fields) > 1 && len(others) > 1 && fields[len(fields)-1] == others[len(others)-1] {
		fields, others = fields[:len(fields)-1], others[:len(others)-1]
	}
	return strings.Join(fields, "")
}

// await waits until a real broker's cursor is as a line says.
func (s *script) await(line []string) {
	if s.target.broker != nil {
		return
	}
	topic, sub, field, want := line[0], line[1], line[2], line[3]
	eventually(s.t, func() bool {
		status, body := s.target.admin("GET", topicPath(topic)+"/internalStats", "")
		var stats struct{ Cursors map[string]map[string]any }
		if err := json.Unmarshal([]byte(body), &stats); err != nil || status != http.StatusOK {
			s.t.Fatal(status, body)
		}
		return fmt.Sprint(stats.Cursors[sub][field]) == want
	})
}

func (s *script) command(line string) {
	parts := strings.SplitN(s.fill(line), " | ", 3)
	name, command, _ := strings.Cut(parts[0], " ")
	if m := keySharedConsumer.FindStringSubmatch(command); m != nil {
		s.shared[name+" MESSAGE message{consumer_id="+m[1]] = true
	}
	parts = append(parts, "", "")
	if m := usedTopic.FindStringSubmatch(command); m != nil && s.target.broker == nil {
		s.lookUp(m[1])
	}
	s.conn(name).send(s.t, command, parts[1], expand(parts[2]))
}

var usedTopic = regexp.MustCompile(`type: (?:PRODUCER|SUBSCRIBE) .* topic: "([^"]*)"`)

// lookUp asks a real broker for a topic, as every client does before it uses one: what nobody has looked up since Pulsar started is served by
// no broker.
func (s *script) lookUp(topic string) {
	s.t.Helper()
	c := s.conn("lookup")
	c.send(s.t, fmt.Sprintf(`type: LOOKUP lookupTopic { topic: %q request_id: 1 }`, topic), "", "")
	if got := c.receive(s.t, patience); !strings.HasPrefix(got, "LOOKUP_RESPONSE") {
		s.t.Fatalf("a lookup of %s: %s", topic, got)
	}
}

// expand and contract write a large payload down in short.
func expand(payload string) string {
	if n, err := strconv.Atoi(strings.TrimPrefix(payload, "$X")); err == nil && payload != "" {
		return strings.Repeat("x", n)
	}
	return payload
}

func contract(payload string) string {
	if len(payload) > 1000 && strings.Trim(payload, "x") == "" {
		return fmt.Sprint("$X", len(payload))
	}
	return payload
}

var (
	hashField   = regexp.MustCompile(`topics_hash=[0-9a-f]*[1-9a-f][0-9a-f]*`)
	ledgerField = regexp.MustCompile(`ledgerId=(\d+)`)
)

// answer is the next command that comes from the broker, written out; "" when none comes in time, "closed" at the end.
func (s *script) answer(conn string, wait time.Duration) string {
	text := s.conn(conn).receive(s.t, wait)
	if s.again(conn, text) {
		return s.answer(conn, wait)
	}
	text = strings.ReplaceAll(text, s.topic, "$T")
	text = strings.ReplaceAll(text, strings.TrimPrefix(s.topic, "persistent://"), "$P")
	text = hashField.ReplaceAllString(text, "topics_hash=$$H") // of names that no other run has
	return ledgerField.ReplaceAllStringFunc(text, func(field string) string {
		id := strings.TrimPrefix(field, "ledgerId=")
		if len(id) > 17 { // a special position
			return field
		}
		i := slices.Index(s.ledgers, id)
		if i < 0 {
			i = len(s.ledgers)
			s.ledgers = append(s.ledgers, id)
		}
		return fmt.Sprintf("ledgerId=$L%d", i)
	})
}

// same compares an answer with the one recorded. Where a SEND says nothing of its highest sequence id, Pulsar's receipt has what an
// object from a pool happens to hold there: -1 if it was used before, 0 if it is new.
func same(got, want string) bool {
	const unset = " highest_sequence_id=18446744073709551615}"
	start, ok := strings.CutSuffix(want, unset)
	return got == want || ok && got == start+" highest_sequence_id=0}"
}

// news tells whether a command is one that the broker sends by itself: when it comes is the broker's affair.
func news(command string) bool {
	return strings.HasPrefix(command, "ACTIVE_CONSUMER_CHANGE") || strings.HasPrefix(command, "CLOSE_CONSUMER") ||
		strings.HasPrefix(command, "REACHED_END_OF_TOPIC") || strings.HasPrefix(command, "WATCH_TOPIC_UPDATE")
}

var (
	keySharedConsumer = regexp.MustCompile(`subType: Key_Shared consumer_id: (\d+)`)
	sentMessage       = regexp.MustCompile(`^(MESSAGE message{consumer_id=\d+) .* \| .*?(sequence_id=\d+ publish_time=\d+)(?: partition_key=(\S+))?(?:.* ordering_key=(\S+))?`)
)

// key is that of a message for a consumer of a Key_Shared subscription, "" of anything else. What has other keys may come in between.
func (s *script) key(conn, text string) string {
	m := sentMessage.FindStringSubmatch(text)
	if m == nil || !s.shared[conn+" "+m[1]] {
		return ""
	}
	return cmp.Or(m[4], m[3], m[2])
}

// expect returns the next answer, or a later one that is wanted where only news came in between, or messages with other keys.
func (s *script) expect(conn, want string) string {
	key, early := s.key(conn, want), s.early[conn]
	if i := slices.IndexFunc(early, func(got string) bool { return same(got, want) || key != "" && s.key(conn, got) == key }); i >= 0 {
		got := early[i]
		s.early[conn] = slices.Delete(early, i, i+1)
		return got
	}
	for {
		got := s.answer(conn, s.wait)
		other := s.key(conn, got)
		if same(got, want) || !news(got) && !news(want) && (key == "" || other == "" || key == other) || got == "" {
			return got
		}
		s.early[conn] = append(s.early[conn], got)
	}
}

// quiet checks that nothing more has come.
func (s *script) quiet() {
	for conn, early := range s.early {
		if len(early) > 0 && !s.conn(conn).ended {
			s.t.Errorf("more came on %s: %s", conn, early)
		}
	}
	for _, name := range s.names() {
		c := s.conns[name]
		if c.ended {
			continue
		}
		c.send(s.t, `type: PING ping {}`, "", "")
		if got := s.answer(name, patience); got != "PONG pong{}" {
			s.t.Errorf("more came on %s: %s", name, got)
		}
	}
}

// rawConn speaks the protocol without a client: commands are written as protobuf text. Like a client it answers the broker's PING
// at once, by which a broker tells who is still there.
type rawConn struct {
	socket net.Conn
	frames chan []byte // closed at the end
	ended  bool
}

func dialRaw(t *testing.T, url string) *rawConn {
	t.Helper()
	socket, err := net.Dial("tcp", strings.TrimPrefix(url, "pulsar://"))
	if err != nil {
		t.Fatal(err)
	}
	c := &rawConn{socket: socket, frames: make(chan []byte, 1000)}
	ping, pong := textProto(t, "BaseCommand", `type: PING ping {}`), textProto(t, "BaseCommand", `type: PONG pong {}`)
	go func() {
		defer close(c.frames)
		for in := bufio.NewReader(socket); ; {
			frame, err := readRaw(in)
			switch {
			case err != nil:
				return
			case bytes.Equal(frame[4:], ping):
				c.write(pong, nil)
			default:
				c.frames <- frame
			}
		}
	}()
	return c
}

func readRaw(in io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(in, frame)
	return frame, err
}

func (c *rawConn) close() { _ = c.socket.Close() }

// leave hangs up, and waits until the broker has seen it: what it does with what the connection had is then under way.
func (c *rawConn) leave(t *testing.T) {
	t.Helper()
	if c.ended {
		c.close()
		return
	}
	if err := c.socket.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for end := time.After(patience); ; {
		select {
		case _, more := <-c.frames:
			if !more {
				c.close()
				return
			}
		case <-end:
			t.Fatal("the broker does not hang up")
		}
	}
}

func (c *rawConn) write(command, entry []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(command)+len(entry)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(command)))
	_, _ = c.socket.Write(slices.Concat(frame, command, entry)) // a closed connection shows when it is read
}

// newProto makes a message of the protocol from the client's own registered types.
func newProto(t *testing.T, name protoreflect.FullName) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName("pulsar.proto." + name)
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

func textProto(t *testing.T, name protoreflect.FullName, text string) []byte {
	t.Helper()
	m := newProto(t, name)
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c *rawConn) send(t *testing.T, command, metadata, payload string) {
	t.Helper()
	var entry []byte
	if metadata != "" {
		entry = rawEntry(t, metadata, []byte(payload))
	}
	c.write(textProto(t, "BaseCommand", command), entry)
}

func rawEntry(t *testing.T, metadata string, payload []byte) []byte {
	t.Helper()
	meta := textProto(t, "MessageMetadata", metadata)
	body := binary.BigEndian.AppendUint32(nil, uint32(len(meta)))
	body = slices.Concat(body, meta, payload)
	head := binary.BigEndian.AppendUint16(nil, 0x0e01)
	head = binary.BigEndian.AppendUint32(head, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return slices.Concat(head, body)
}

// receive is the next command, written out; "" when none comes in time, "closed" once at the end.
func (c *rawConn) receive(t *testing.T, wait time.Duration) string {
	t.Helper()
	var frame []byte
	select {
	case next, ok := <-c.frames:
		if !ok && c.ended {
			return ""
		}
		if c.ended = !ok; c.ended {
			return "closed"
		}
		frame = next
	case <-time.After(wait):
		return ""
	}
	n := binary.BigEndian.Uint32(frame)
	cmd := newProto(t, "BaseCommand")
	if err := proto.Unmarshal(frame[4:4+n], cmd); err != nil {
		t.Fatal(err)
	}
	text := formatCommand(cmd.ProtoReflect())
	if entry := frame[4+n:]; len(entry) > 10 {
		size := binary.BigEndian.Uint32(entry[6:])
		meta := newProto(t, "MessageMetadata")
		if err := proto.Unmarshal(entry[10:10+size], meta); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf(" | %s | %s", formatFields(meta.ProtoReflect()), contract(string(entry[10+size:])))
	}
	return text
}

func formatCommand(m protoreflect.Message) string {
	kind := m.Descriptor().Fields().ByName("type")
	text := string(kind.Enum().Values().ByNumber(m.Get(kind).Enum()).Name())
	m.Clear(kind)
	return text + " " + formatFields(m)
}

// formatFields writes a message down in the order of its field numbers. An error's wording is the broker's own and left out, and so is a version.
func formatFields(m protoreflect.Message) string {
	var parts []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) || f.Name() == "server_version" || f.Name() == "feature_flags" || f.Name() == "brokerServiceUrl" {
			continue
		}
		if f.Name() == "message" && f.Kind() == protoreflect.StringKind || f.Name() == "error_message" {
			if text := m.Get(f).String(); *verbose {
				parts = append(parts, string(f.Name())+"="+text)
			}
			continue
		}
		if !f.IsList() {
			parts = append(parts, string(f.Name())+formatValue(f, m.Get(f)))
			continue
		}
		for j := range m.Get(f).List().Len() {
			parts = append(parts, string(f.Name())+formatValue(f, m.Get(f).List().Get(j)))
		}
	}
	return strings.Join(parts, " ")
}

var verbose = flag.Bool("errortext", false, "show the wording of errors in testdata/wire")

func formatValue(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return "{" + formatFields(v.Message()) + "}"
	case protoreflect.EnumKind:
		if name := f.Enum().Values().ByNumber(v.Enum()); name != nil {
			return "=" + string(name.Name())
		}
	case protoreflect.BytesKind:
		if b := v.Bytes(); len(b) > 0 && b[0] < ' ' {
			return "=" + hex.EncodeToString(b)
		}
		return "=" + string(v.Bytes())
	}
	return "=" + v.String()
}
