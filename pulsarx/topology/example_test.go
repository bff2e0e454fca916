package topology_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/pulsartest"
	"github.com/tidemark-go/tidemark/pulsarx/topology"
)

// A declaration is strict: what is wrong in it is said at once, with lines and paths.
func ExampleParse() {
	_, err := topology.Parse([]byte(`
tenants:
  shop:
    namespaces:
      events:
        retention: {time: 7 days}
        ttl: 14d
        topics:
          orders: {partition: 8}
`))
	fmt.Println(err)
	_, err = topology.Parse([]byte(`
tenants:
  shop:
    namespaces:
      events:
        retention: {time: 7d, size: 10GiB}
        backlogSize: {limit: 20GiB}
        topics:
          orders: {partitions: 8, persistence: {ensemble: 3, writeQuorum: 2, ackQuorum: 3}}
`))
	fmt.Println(err)
	// Output:
	// topology: line 6: "7 days" is no duration such as 90s, 12h, 7d or infinite
	// topology: line 9: field partition not found in type topology.Topic
	// topology: tenants.shop.namespaces.events.backlogSize.limit: Pulsar wants it below that of retention
	// topology: tenants.shop.namespaces.events.topics.orders.persistence: want ensemble >= writeQuorum >= ackQuorum >= 1, not 3, 2, 3
}

func ExamplePartitions() {
	n, why := topology.Partitions(180_000, 0)
	fmt.Println(n, "-", why)
	n, why = topology.Partitions(180_000, 20_000) // measured with one's own messages
	fmt.Println(n, "-", why)
	// Output:
	// 4 - 180000 messages/s at 50000/s a partition take 4 partitions, which leaves 20000/s of room
	// 9 - 180000 messages/s at 20000/s a partition take 9 partitions, which leaves 0/s of room
}

// A plan is read before it is applied, and there is nothing left to do afterwards. Growing a topic with keys is refused at first.
func ExampleNewPlan() {
	ctx := context.Background()
	client, stop := exampleCluster()
	defer stop()

	declare := func(partitions int) topology.Topology {
		want, err := topology.Parse(fmt.Appendf(nil, `
tenants:
  shop:
    namespaces:
      events:
        topics:
          orders:
            partitions: %d
            subscriptions:
              billing:
                deadLetter: {}
`, partitions))
		if err != nil {
			log.Fatal(err)
		}
		return want
	}
	for _, partitions := range []int{4, 4, 2} {
		plan, err := topology.NewPlan(ctx, client, declare(partitions), topology.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(plan)
		if err := plan.Apply(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// + tenant shop (clusters [standalone], admins [])
	// + namespace shop/events
	// + topic persistent://shop/events/orders (4 partitions)
	//     + subscriptions.billing: from the oldest message
	// + topic persistent://shop/events/orders-billing-DLQ (no partitions)
	//     + subscriptions.dead-letters: from the oldest message
	// Plan: 6 to create or set, 0 to change, 0 to delete or unset.
	// Nothing to do: the cluster is as declared.
	// refused: topic persistent://shop/events/orders: it has 4 partitions, and partitions only grow: declare at least those, or a topic of another name with 2
	// Plan: 0 to create or set, 0 to change, 0 to delete or unset; 1 refused, so that nothing is applied.
	// topology: refused: topic persistent://shop/events/orders: it has 4 partitions, and partitions only grow: declare at least those, or a topic of another name with 2 (none of 0 changes was made)
}

// A tenant with its namespaces and topics for each experiment is created and dropped as one. Messages are deleted with their topics,
// which must not be in use any more; let what is large expire before, since deleting it keeps the brokers busy.
func ExampleNewDropPlan() {
	ctx := context.Background()
	client, stop := exampleCluster()
	defer stop()

	experiment := topology.Topology{Tenants: map[string]topology.Tenant{
		"experiment-42": {Namespaces: map[string]topology.Namespace{
			"training": {Topics: map[string]topology.Topic{"features": {Partitions: 2}, "labels": {}}},
		}},
	}}
	plan, err := topology.NewPlan(ctx, client, experiment, topology.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := plan.Apply(ctx); err != nil {
		log.Fatal(err)
	}

	// ... the experiment, which makes further topics as it goes ...

	drop, err := topology.NewDropPlan(ctx, client, experiment)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(drop)
	if err := drop.Apply(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = topology.Read(ctx, client, "experiment-42")
	fmt.Println(err)
	// Output:
	// - topic persistent://experiment-42/training/features (holds 0B, no subscriptions)
	// - topic persistent://experiment-42/training/labels (holds 0B, no subscriptions)
	// - namespace experiment-42/training
	// - tenant experiment-42
	// Plan: 0 to create or set, 0 to change, 4 to delete or unset.
	// topology: not found: tenant experiment-42
}

// A cluster that exists becomes a declaration, to keep in a file and go on from.
func ExampleRead() {
	ctx := context.Background()
	client, stop := exampleCluster()
	defer stop()

	// Made by hand, long ago.
	if err := client.Admin(ctx, "PUT", "/tenants/shop", map[string]any{"allowedClusters": []string{"standalone"}}, nil); err != nil {
		log.Fatal(err)
	}
	if err := client.Admin(ctx, "PUT", "/namespaces/shop/events", nil, nil); err != nil {
		log.Fatal(err)
	}
	if err := client.Admin(ctx, "PUT", "/persistent/shop/events/orders/partitions", 4, nil); err != nil {
		log.Fatal(err)
	}

	have, err := topology.Read(ctx, client, "shop")
	if err != nil {
		log.Fatal(err)
	}
	text, err := have.YAML()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// tenants:
	//   shop:
	//     clusters: [standalone]
	//     namespaces:
	//       events:
	//         replicationClusters: [standalone]
	//         topics:
	//           orders:
	//             partitions: 4
}

// exampleCluster is a Pulsar for an example; an application has a real one.
func exampleCluster() (*pulsarx.Client, func()) {
	broker, err := pulsartest.NewBroker(pulsartest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := pulsarx.NewClient(pulsarx.ClientOptions{URL: broker.URL(), AdminURL: broker.AdminURL()})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		if err := client.Close(context.Background()); err != nil {
			log.Print(err)
		}
		if err := broker.Close(); err != nil {
			log.Print(err)
		}
	}
}
