package topology

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

const manyPartitions = 1000

func (d *diff) createTopic(name topicName, want Topic) {
	resource := topicResource(name)
	if want.Partitions > manyPartitions {
		d.warn(resource, "%d partitions: each costs the brokers memory, and every client of the topic a producer or consumer",
			want.Partitions)
	}
	if want.Partitions == 0 {
		d.add(resource, "", "", "no partitions", createTopicStep(name, 0))
		return
	}
	d.add(resource, "", "", partitions(want.Partitions), createTopicStep(name, want.Partitions))
}

func partitions(n int) string {
	switch n {
	case 0:
		return "no partitions"
	case 1:
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// createTopicStep takes a topic that exists meanwhile for its own where it has the same partitions.
func createTopicStep(name topicName, n int) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		path, body := name.path(), any(nil)
		if n > 0 {
			path, body = path+"/partitions", n
		}
		err := c.call(ctx, http.MethodPut, path, body, nil)
		if admin.Status(err) == http.StatusConflict && c.hasPartitions(ctx, name, n) {
			return nil
		}
		return err
	}
}

// growStep takes a topic that has grown meanwhile for grown.
func growStep(name topicName, n int) func(context.Context, cluster, bool) error {
	return func(ctx context.Context, c cluster, _ bool) error {
		err := c.call(ctx, http.MethodPost, name.path()+"/partitions", n, nil)
		if err != nil && c.hasPartitions(ctx, name, n) {
			return nil
		}
		return err
	}
}

func (c cluster) hasPartitions(ctx context.Context, name topicName, n int) bool {
	var have struct{ Partitions int }
	err := c.call(ctx, http.MethodGet, name.path()+"/partitions", nil, &have)
	return err == nil && have.Partitions == n
}

// partitionsOf grows a topic, or refuses to.
func (d *diff) partitionsOf(ctx context.Context, name topicName, want Topic, have int) error {
	resource := topicResource(name)
	switch {
	case want.Partitions == have:
	case have == 0:
		d.refuse(resource, "it has no partitions, and Pulsar cannot give it any: declare a topic of another name with %s, and move producers "+
			"and consumers there", partitions(want.Partitions))
	case want.Partitions == 0:
		d.refuse(resource, "it has %s, and Pulsar cannot take them away: declare partitions: %d", partitions(have), have)
	case want.Partitions < have:
		d.refuse(resource, "it has %s, and partitions only grow: declare at least those, or a topic of another name with %d", partitions(have),
			want.Partitions)
	default:
		return d.grow(ctx, name, want, have)
	}
	return nil
}

func (d *diff) grow(ctx context.Context, name topicName, want Topic, have int) error {
	resource := topicResource(name)
	told := slices.Contains(d.options.GrowKeyed, name.String())
	if !want.Unkeyed && name.domain == persistent {
		state, err := d.use(ctx, name, have)
		if err != nil {
			return err
		}
		if !told {
			d.refuse(resource, "to grow it from %d to %d partitions moves keys to other partitions: while messages are unread or being sent, a "+
				"key's new messages overtake its old ones. Stop its producers; let every subscription drain to a backlog of 0 (%s now); plan with "+
				"Options.GrowKeyed holding %s, and apply; start the producers. Where no consumer needs the order of keys, declare unkeyed: true",
				have, want.Partitions, state, name)
			return nil
		}
		if state.producers > 0 || state.backlog() > 0 {
			d.warn(resource, "it grows though it is not drained: %s; the order of its keys breaks for these messages", state)
		}
	}
	d.add(resource, "partitions", fmt.Sprint(have), fmt.Sprint(want.Partitions), growStep(name, want.Partitions))
	return nil
}

// use is who uses a topic, and how many entries, which are messages or batches of them, they have not acknowledged.
type use struct {
	producers int
	backlogs  map[string]int64
	size      int64
}

func (u use) backlog() (n int64) {
	for _, backlog := range u.backlogs {
		n += backlog
	}
	return n
}

func (u use) String() string {
	texts := []string{fmt.Sprintf("%d connected producers", u.producers)}
	for sub, n := range inOrder(u.backlogs) {
		texts = append(texts, fmt.Sprintf("%s %d entries behind", sub, n))
	}
	return strings.Join(texts, ", ")
}

// use reads the statistics of a topic.
func (d *diff) use(ctx context.Context, name topicName, n int) (use, error) {
	path := name.path() + "/stats"
	if n > 0 {
		path = name.path() + "/partitioned-stats?perPartition=false"
	}
	var w struct {
		Publishers    []struct{}
		StorageSize   int64
		Subscriptions map[string]struct {
			MsgBacklog int64 // entries, in spite of its name
		}
	}
	if _, err := d.get(ctx, path, &w); err != nil {
		return use{}, fmt.Errorf("statistics of %s: %w", name, err)
	}
	u := use{producers: len(w.Publishers), backlogs: map[string]int64{}, size: w.StorageSize}
	for sub, s := range w.Subscriptions {
		if strings.HasPrefix(sub, "__") {
			continue
		}
		u.backlogs[sub] = s.MsgBacklog
	}
	return u, nil
}

// deleteTopic deletes a topic with its messages, and says how much that is.
func (d *diff) deleteTopic(ctx context.Context, name topicName) error {
	var w struct{ Partitions int }
	found, err := d.get(ctx, name.path()+"/partitions", &w)
	if err != nil || !found {
		return err
	}
	var held string
	switch u, err := d.use(ctx, name, w.Partitions); {
	case err == nil:
		held = "holds " + Size(u.size).String() + ", " + u.held()
	case admin.Status(err) == 0:
		return err
	default: // a topic that cannot be opened can be deleted all the same
		held = "what it holds is not known"
	}
	path := name.path()
	if w.Partitions > 0 {
		path += "/partitions"
	}
	d.add(topicResource(name), "", held, gone, deleted(path))
	return nil
}

func (u use) held() string {
	if len(u.backlogs) == 0 {
		return "no subscriptions"
	}
	return fmt.Sprintf("%d entries are not acknowledged, of subscriptions %s", u.backlog(), strings.Join(sorted(u.backlogs), ", "))
}

// deleteNamespace deletes a namespace with its topics.
func (d *diff) deleteNamespace(ctx context.Context, tenant, local string) error {
	all, err := d.topicNames(ctx, tenant, local)
	if err != nil {
		return err
	}
	for _, name := range all {
		if err := d.deleteTopic(ctx, name); err != nil {
			return err
		}
	}
	d.add(namespaceResource(tenant, local), "", "", gone, deleted(admin.Path("namespaces", tenant, local)))
	return nil
}
