package pulsartest

import (
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
)

// maxPattern bounds a pattern of topic names as Pulsar does by default, maxWatchers the watchers of a connection.
const (
	maxPattern  = 50
	maxWatchers = 1000
)

// watcher is a client's wish to hear of the topics of a namespace whose names match a pattern.
type watcher struct {
	namespace string
	pattern   *regexp.Regexp
}

// topicPattern compiles a pattern as clients send it: of a whole name, with or without the domain.
func topicPattern(s string) (*regexp.Regexp, *refusal) {
	pattern, err := regexp.Compile(`\A(?:` + withoutDomain(s) + `)\z`)
	if err != nil {
		return nil, refuse(invalidTopicName, "Pattern: %v", err)
	}
	return pattern, nil
}

func withoutDomain(s string) string {
	for _, domain := range domains {
		if rest, ok := strings.CutPrefix(s, domain+"://"); ok {
			return rest
		}
	}
	return s
}

// matching are the names that match a pattern.
func matching(pattern *regexp.Regexp, names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !pattern.MatchString(withoutDomain(name)) })
}

// topicsHash is what clients compare lists of topics by.
func topicsHash(names []string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(strings.Join(names, ",")), castagnoli))
}

// topicsIn are the topics of a namespace by the mode of a request: 0 for stored ones, 1 for others, 2 for all.
func (b *Broker) topicsIn(namespace string, mode uint64) []string {
	var names []string
	if mode != 1 {
		names = b.topicsOf(persistent, namespace)
	}
	if mode != 0 {
		names = append(names, b.topicsOf(nonPersistent, namespace)...)
	}
	return names
}

// topicsOf are the full names of a namespace's topics, a partitioned one's partitions each.
func (b *Broker) topicsOf(domain, namespace string) []string {
	prefix := domain + "://" + withoutDomain(namespace) + "/"
	var names []string
	for name := range b.topics {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *topicsRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	names := c.broker.topicsIn(r.namespace, r.mode)
	filtered := r.pattern != "" && len(r.pattern) <= maxPattern // the client has to do it otherwise
	if filtered {
		pattern, why := topicPattern(r.pattern)
		if why != nil {
			r.fail(c, why)
			return
		}
		names = matching(pattern, names)
	}
	hash := topicsHash(names)
	changed := r.hash == "" || r.hash != hash
	body := appendUint(nil, 1, r.requestID)
	if changed {
		body = appendStrings(body, 2, names...)
	}
	body = appendBool(body, 3, filtered)
	body = appendString(body, 4, hash)
	c.reply(cmdGetTopicsResponse, appendBool(body, 5, changed))
}

func (r *watchRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if len(withoutDomain(r.pattern)) > maxPattern {
		r.fail(c, refuse(notAllowedError, "Unable to create topic list watcher: Pattern longer than maximum: %d", maxPattern))
		return
	}
	pattern, why := topicPattern(r.pattern)
	if why != nil {
		r.fail(c, why)
		return
	}
	if len(c.watchers) >= maxWatchers {
		r.fail(c, refuse(tooManyRequests, "A connection may have %d watchers", maxWatchers))
		return
	}
	w := c.watchers[r.watcherID]
	if w == nil { // one that is there stays as it is
		w = &watcher{namespace: withoutDomain(r.namespace), pattern: pattern}
		c.watchers[r.watcherID] = w
	}
	names := matching(w.pattern, c.broker.topicsIn(w.namespace, 0))
	body := appendUint(nil, 1, r.requestID)
	body = appendUint(body, 2, r.watcherID)
	body = appendStrings(body, 3, names...)
	c.reply(cmdWatchTopicListSuccess, appendString(body, 4, topicsHash(names)))
}

func (r *closeWatchRequest) serve(c *conn) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	delete(c.watchers, r.watcherID)
	c.sendSuccess(r.requestID)
}

// tellWatchers says that a topic is there, or no more.
func (b *Broker) tellWatchers(name topicName, added bool) {
	if name.transient() {
		return
	}
	for c := range b.conns {
		for id, w := range c.watchers {
			if w.namespace != name.namespace || !w.pattern.MatchString(withoutDomain(name.full)) {
				continue
			}
			body := appendUint(nil, 1, id)
			if added {
				body = appendString(body, 2, name.full)
			} else {
				body = appendString(body, 3, name.full)
			}
			body = appendString(body, 4, topicsHash(matching(w.pattern, b.topicsIn(w.namespace, 0))))
			c.reply(cmdWatchTopicUpdate, body)
		}
	}
}
