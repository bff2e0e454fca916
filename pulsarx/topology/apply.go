package topology

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// Apply makes the changes in their order, and waits for each policy until it reads back as it was set. Where the plan holds refusals
// it makes none; at the first change that the server refuses, that fails, or before which ctx ends, it stops. Both are an *ApplyError.
// What is there already when a change comes to it is taken as made, so that Apply may be called again.
func (p *Plan) Apply(ctx context.Context) error {
	if len(p.Refusals) > 0 {
		var errs []error
		for _, r := range p.Refusals {
			errs = append(errs, fmt.Errorf("%w: %v", ErrRefused, r))
		}
		return &ApplyError{NotDone: p.Changes, Err: errors.Join(errs...)}
	}
	var done []Change
	for len(done) < len(p.Changes) {
		n := p.sameResource(len(done))
		made, failed, err := p.make(ctx, p.Changes[len(done):len(done)+n])
		done = append(done, made...)
		if err != nil {
			return &ApplyError{Done: done, Failed: failed, NotDone: p.after(done, failed), Err: err}
		}
	}
	return nil
}

// sameResource is how many changes from the first on are about one resource.
func (p *Plan) sameResource(first int) int {
	n := 1
	for first+n < len(p.Changes) && p.Changes[first+n].Resource == p.Changes[first].Resource {
		n++
	}
	return n
}

// make makes the changes of one resource. Some policies bound others, and Pulsar refuses what is out of bounds for the moment: such a
// change is made again after the others.
func (p *Plan) make(ctx context.Context, changes []Change) (done []Change, failed Change, err error) {
	var postponed []Change
	for _, c := range changes {
		if ctx.Err() != nil {
			return done, c, context.Cause(ctx)
		}
		err := c.step.run(ctx, p.cluster, false)
		switch status := admin.Status(err); {
		case err == nil:
			done = append(done, c)
		case c.Setting != "" && (status == http.StatusPreconditionFailed || status == http.StatusBadRequest):
			postponed = append(postponed, c)
		default:
			return done, c, err
		}
	}
	for _, c := range postponed {
		if err := c.step.run(ctx, p.cluster, true); err != nil {
			return done, c, err
		}
		done = append(done, c)
	}
	return done, Change{}, nil
}

// after are the changes that are neither done nor failed.
func (p *Plan) after(done []Change, failed Change) []Change {
	past := map[Change]bool{failed: true}
	for _, c := range done {
		past[c] = true
	}
	var rest []Change
	for _, c := range p.Changes {
		if !past[c] {
			rest = append(rest, c)
		}
	}
	return rest
}

// NewDropPlan is the plan to delete the declared tenants and namespaces with all that is in them, declared or not, and with their
// messages; a tenant goes when it declares all namespaces that it has, and those of Pulsar's own, public and pulsar, never. It is for
// what was made for an experiment: a tenant, or a namespace, is created and dropped as one. A topic that is in use is refused by the
// server, so stop its clients first. Isolation policies that are declared are deleted too.
//
// Topics are deleted one by one and never by force: on Pulsar 4.0.8 forced deletions of topics with messages were seen to hold up
// the dispatch of other topics of the broker.
func NewDropPlan(ctx context.Context, client *pulsarx.Client, t Topology) (*Plan, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	d := newDiff(client, t, Options{})
	if err := d.drop(ctx); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return d.plan, nil
}

func (d *diff) drop(ctx context.Context) error {
	for name, t := range inOrder(d.want.Tenants) {
		if err := d.dropTenant(ctx, name, t); err != nil {
			return err
		}
	}
	for cluster, policies := range inOrder(d.want.Isolation) {
		have, err := d.isolation(ctx, cluster)
		if err != nil {
			return err
		}
		for name := range inOrder(policies) {
			if existing, found := have[name]; found {
				d.add("cluster "+cluster, "isolation."+name, text(existing), "", deleted(isolationPath(cluster)+admin.Path(name)))
			}
		}
	}
	return nil
}

func (d *diff) dropTenant(ctx context.Context, name string, t Tenant) error {
	have, err := d.tenant(ctx, name)
	if err != nil || have == nil {
		return err
	}
	all, err := d.namespaces(ctx, name)
	if err != nil {
		return err
	}
	left := 0
	for _, local := range all {
		if _, declared := t.Namespaces[local]; !declared {
			left++
		} else if own(name, local) {
			d.refuse(namespaceResource(name, local), "it is Pulsar's own")
		} else if err := d.deleteNamespace(ctx, name, local); err != nil {
			return err
		}
	}
	if name == "public" || name == "pulsar" {
		return nil
	}
	if left > 0 {
		d.warn("tenant "+name, "it stays: %d of its namespaces are not declared", left)
		return nil
	}
	d.add("tenant "+name, "", "", gone, deleted(admin.Path("tenants", name)))
	return nil
}

// own says whether a namespace is one that Pulsar itself needs.
func own(tenant, namespace string) bool {
	return tenant == "pulsar" || tenant == "public" && (namespace == "default" || namespace == "functions")
}
