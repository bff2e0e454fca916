package pulsarx

import (
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

// plainNamespace is Pulsar's rule for the names of tenants and namespaces (NamedEntity).
var plainNamespace = regexp.MustCompile(`\A[-=:.\w]+/[-=:.\w]+\z`)

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
	if !plainNamespace.MatchString(p.namespace) {
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
		return nil, clientError("topics of "+p.namespace, c.options.URL, err)
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
func (r registry) topics(ctx context.Context, namespace string, nonPersistent bool) (topics []string, err error) {
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	body = appendBytes(body, 2, []byte(namespace))
	if nonPersistent {
		body = protowire.AppendVarint(protowire.AppendTag(body, 3, protowire.VarintType), modeNonPersistent)
	}
	err = r.ask(ctx, cmdGetTopics, body, cmdGetTopicsResponse, func(answer []byte) (err error) {
		topics, err = parseTopics(answer)
		return err
	})
	return topics, err
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
