package pulsarx

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	cmdGetTopics         = 32
	cmdGetTopicsResponse = 33
	modeNonPersistent    = 1
)

// topicPattern is ConsumerOptions.TopicPattern.
type topicPattern struct {
	domain, namespace string
	name              *regexp.Regexp // of the whole name in the namespace
	letters           string         // the dead-letter topic, or
	suffix            string         // what the names of the dead-letter topics end with
}

func parsePattern(text string, o ConsumerOptions) (*topicPattern, error) {
	p := &topicPattern{domain: "persistent"}
	domain, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok:
		rest = text
	case domain != "persistent" && domain != "non-persistent":
		return nil, fmt.Errorf("%q is neither persistent nor non-persistent", domain)
	default:
		p.domain = domain
	}
	if !strings.Contains(rest, "/") {
		rest = "public/default/" + rest
	}
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, errors.New("want tenant/namespace/expression, or an expression without a slash")
	}
	p.namespace = parts[0] + "/" + parts[1]
	if regexp.QuoteMeta(p.namespace) != strings.ReplaceAll(p.namespace, ".", `\.`) {
		return nil, fmt.Errorf("the namespace %s is no plain name: a pattern is of one namespace", p.namespace)
	}
	name, err := regexp.Compile(`\A(?:` + parts[2] + `)\z`)
	if err != nil {
		return nil, err
	}
	p.name = name
	if p.letters = fullTopic(o.DeadLetter.Topic); o.DeadLetter.Topic == "" {
		p.letters, p.suffix = "", deadLetterSuffix(o.Subscription)
	}
	return p, nil
}

// list returns the topics that match, without their partitions' numbers, in order.
func (p *topicPattern) list(ctx context.Context, c *Client) ([]string, error) {
	names, err := (registry{c.options}).topics(ctx, p.namespace, p.domain == "non-persistent")
	if err != nil {
		return nil, fmt.Errorf("pulsarx: topics of %s: %w", p.namespace, err)
	}
	var topics []string
	for _, name := range names {
		if topic := parsePartition(name).topic; p.matches(topic) {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics), nil
}

func (p *topicPattern) matches(topic string) bool {
	local, ok := strings.CutPrefix(topic, p.domain+"://"+p.namespace+"/")
	switch {
	case !ok, strings.HasPrefix(local, "__"), topic == p.letters, p.suffix != "" && strings.HasSuffix(local, p.suffix):
		return false
	}
	return p.name.MatchString(local)
}

// topics returns the topics of a namespace, partitions one by one.
func (r registry) topics(ctx context.Context, namespace string, nonPersistent bool) ([]string, error) {
	scheme, hosts, _ := strings.Cut(r.options.URL, "://")
	var errs []error
	for host := range strings.SplitSeq(hosts, ",") {
		topics, err := r.topicsOf(ctx, scheme, host, namespace, nonPersistent)
		if err == nil {
			return topics, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
	}
	return nil, joined(errs)
}

func (r registry) topicsOf(ctx context.Context, scheme, host, namespace string, nonPersistent bool) ([]string, error) {
	conn, err := r.dial(ctx, scheme, host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	login, err := r.login()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	if _, err := request(conn, in, cmdConnect, login, cmdConnected); err != nil {
		return nil, err
	}
	var ask []byte
	ask = protowire.AppendTag(ask, 1, protowire.VarintType)
	ask = protowire.AppendVarint(ask, 1)
	ask = appendBytes(ask, 2, []byte(namespace))
	if nonPersistent {
		ask = protowire.AppendTag(ask, 3, protowire.VarintType)
		ask = protowire.AppendVarint(ask, modeNonPersistent)
	}
	answer, err := request(conn, in, cmdGetTopics, ask, cmdGetTopicsResponse)
	if err != nil {
		return nil, err
	}
	return parseTopics(answer)
}

// parseTopics reads the body of GET_TOPICS_OF_NAMESPACE_RESPONSE.
func parseTopics(body []byte) (topics []string, err error) {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		body = body[n:]
		if number == 2 && kind == protowire.BytesType {
			name, n := protowire.ConsumeBytes(body)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			topics, body = append(topics, string(name)), body[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
			return nil, protowire.ParseError(n)
		}
		body = body[n:]
	}
	return topics, nil
}
