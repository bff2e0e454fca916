package pulsartest

import (
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pulsarx/internal/topicname"
)

const (
	persistent    = "persistent"
	nonPersistent = "non-persistent"
)

var domains = []string{persistent, nonPersistent}

// topicName is the full name of a topic and its parts.
type topicName struct {
	full, domain, namespace, local string
	base                           string // full, without a partition's suffix
	partition                      int    // -1 for a topic that is no partition
}

// parseTopic understands "orders", "tenant/namespace/orders" and "persistent://tenant/namespace/orders".
func parseTopic(s string) (topicName, error) {
	domain, rest, ok := strings.Cut(s, "://")
	if !ok {
		domain, rest = persistent, s
		if !strings.Contains(s, "/") {
			rest = "public/default/" + s
		}
	}
	parts := strings.SplitN(rest, "/", 3)
	switch {
	case !slices.Contains(domains, domain), len(parts) != 3, !validName(parts[0]), !validName(parts[1]), parts[2] == "":
		return topicName{}, refuse(invalidTopicName, "Invalid topic name: %s", s)
	}
	t := topicName{
		full: domain + "://" + rest, domain: domain, namespace: parts[0] + "/" + parts[1],
		local: parts[2],
	}
	t.base, t.partition = topicname.SplitPartition(t.full)
	return t, nil
}

// transient tells whether the topic's messages are not stored.
func (n topicName) transient() bool { return n.domain == nonPersistent }

// inNamespace tells whether a topic's full name is one of a namespace.
func inNamespace(topic, namespace string) bool {
	_, rest, _ := strings.Cut(topic, "://")
	return strings.HasPrefix(rest, namespace+"/")
}

// validName is the rule for tenants and namespaces.
func validName(s string) bool {
	ok := s != ""
	for _, r := range s {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-=:._", r))
	}
	return ok
}
