// Package topology declares what a Pulsar cluster should have: tenants, namespaces, topics, subscriptions, policies, permissions. It
// shows the difference to what is there, and makes it.
//
// A declaration is a Go value, or a YAML file with the same names:
//
//	tenants:
//	  shop:
//	    namespaces:
//	      events:
//	        retention: {time: 7d, size: 100GiB}     # the namespace's policies
//	        schemaCompatibility: BACKWARD
//	        permissions:
//	          billing: [consume]
//	        topics:
//	          orders:
//	            partitions: 8
//	            deduplication: on                   # a topic's own policies go first
//	            subscriptions:
//	              billing:
//	                deadLetter: {retention: infinite}
//
// Plan, read, apply:
//
//	want, err := topology.Load("pulsar.yaml")
//	plan, err := topology.NewPlan(ctx, client, want, topology.Options{})
//	fmt.Print(plan)
//	err = plan.Apply(ctx)
//
// The client is a pulsarx.Client with an AdminURL: its TLS and authentication are used. What a plan shows looks like this:
//
//	~ namespace shop/events
//	    ~ retention: {time: 1d, size: 10GiB} -> {time: 7d, size: 100GiB}
//	    + permissions.billing: consume
//	+ topic persistent://shop/events/orders (8 partitions)
//	    + deduplication: on
//	    + subscriptions.billing: from the oldest message
//	+ topic persistent://shop/events/orders-billing-DLQ (no partitions)
//	    + retention: infinite
//	    + subscriptions.dead-letters: from the oldest message
//	warning: ...
//	Plan: 7 to create or set, 1 to change, 0 to delete or unset.
//
// # What is not declared
//
// stays as it is. A policy that is absent is not touched; name it in reset to take it back to what applies without it. Nothing is
// deleted because a declaration does not mention it, unless [Options.ResetUndeclared] (policies, permissions) and
// [Options.DeleteUndeclared] (namespaces, topics, subscriptions, inside of what is declared) say so. [NewDropPlan] deletes what is
// declared, with all that is in it: a tenant or namespace for each experiment is created and dropped as one.
//
// [Read] turns a cluster that exists into a declaration: planning it changes nothing. Read before a change, kept as YAML, is the way
// back: policies that the change added are taken back with ResetUndeclared.
//
// # Applying
//
// [Plan.Apply] makes the changes in the plan's order and waits for each policy until the server returns it as it was set. What Pulsar
// accepts and drops (it does, for values that it does not know) is an error therefore. At the first change that is refused it stops
// with an [*ApplyError], which says what is done and what is not. Applying again, or planning and applying, goes on from there: a plan
// made after a complete one is empty. A plan that holds refusals is not applied at all.
//
// The administrators of a tenant may plan, apply and read what is in it. Isolation and bookieAffinity take a superuser.
//
// Requests are tried again for up to 20 s where the server does not answer, or answers that it cannot for the moment.
//
// # Partitions
//
// [Partitions] says how many a topic needs. Their number only grows: shrinking is refused, and so is giving partitions to a topic that
// has none, which Pulsar cannot do. Growing moves keys to other partitions, where a key's new messages overtake the old ones that are
// still unread. It is refused therefore, with the number of producers and each subscription's backlog, unless the topic is declared
// unkeyed, or [Options.GrowKeyed] names it. The procedure that keeps the order:
//
//  1. Stop the topic's producers.
//  2. Let every subscription drain to a backlog of 0.
//  3. Plan with GrowKeyed, read, apply.
//  4. Start the producers again.
//
// # Warnings
//
// A plan warns where messages are lost though somebody may count on them: retention that deletes what was offloaded, or before it is
// (Pulsar's retention counts offloaded messages too: only infinite retention keeps what tiered storage holds), quotas that evict a
// backlog, and a topic that grows though it is not drained.
//
// # What Pulsar 4.0.8 does
//
// Policies are checked by the broker when a topic is opened: with more bookies in persistence than there are, a bookieAffinity group
// that does not exist, or an offload driver that is not installed, the policy is taken, and then no topic opens, not even to be read
// or deleted. A quota of a backlog has to be below a finite retention, also that of the broker's default (10 GiB, and no age): declare
// both. Quotas of age are refused beside a finite retention of size; Apply makes the retention infinite for that moment, and if it is
// interrupted just then, it stays so until the next plan. Forced deletions of topics were seen to hold up the dispatch of others on the
// same broker, so that this package deletes without force, topic by topic. The deletion of an empty namespace was seen to hang, on a
// busy broker, in Pulsar's deletion of its own topic there ("Topic is already fenced" from then on): restart the broker, and apply
// the plan again.
//
// Schemas are no part of a declaration; producers register them, and pulsarx has functions for them.
package topology
