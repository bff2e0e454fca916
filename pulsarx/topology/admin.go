package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/pulsarx"
	"github.com/tidemark-go/tidemark/pulsarx/internal/admin"
)

// The routes that this package calls, below /admin/v2; {r} is namespaces/{t}/{n}, persistent/{t}/{n}/{topic} or
// non-persistent/{t}/{n}/{topic}, with the policies of the table in setting.go:
//
//	GET    /clusters
//	GET    PUT POST DELETE  /tenants/{t}                           body {"adminRoles": [], "allowedClusters": []}
//	GET    /namespaces/{t}
//	GET    PUT DELETE       /namespaces/{t}/{n}                    auth_policies of the answer are read
//	GET    /persistent/{t}/{n}, /persistent/{t}/{n}/partitioned, /non-persistent/{t}/{n}/partitioned
//	PUT    DELETE           /persistent/{t}/{n}/{topic}
//	GET    PUT POST DELETE  /{domain}/{t}/{n}/{topic}/partitions
//	GET    /persistent/{t}/{n}/{topic}/stats, /persistent/{t}/{n}/{topic}/partitioned-stats?perPartition=false
//	GET    /persistent/{t}/{n}/{topic}/subscriptions
//	PUT    DELETE           /persistent/{t}/{n}/{topic}/subscription/{s}    body: a message id
//	GET    POST             /persistent/{t}/{n}/{topic}/subscription/{s}/replicatedSubscriptionStatus
//	POST   DELETE           /{r}/permissions/{role}                body ["produce", "consume"]
//	GET    /clusters/{c}/namespaceIsolationPolicies
//	POST   DELETE           /clusters/{c}/namespaceIsolationPolicies/{name}

const (
	retryTime  = 20 * time.Second // no further attempt of a request after that
	firstPause = 100 * time.Millisecond
	settleTime = 30 * time.Second // until a policy reads back as it was set
	settlePoll = 20 * time.Millisecond
	readers    = 4 // requests at a time
)

// cluster calls the admin interface. Everything that it is asked may be asked again.
type cluster struct{ client *pulsarx.Client }

// call tries again where the server says that it cannot answer now, or does not answer at all.
func (c cluster) call(ctx context.Context, method, path string, in, out any) error {
	pause, last := firstPause, time.Now().Add(retryTime)
	for {
		err := c.client.Admin(ctx, method, path, in, out)
		if err == nil || time.Now().Add(pause).After(last) || ctx.Err() != nil || !passing(err) {
			return brief(err)
		}
		select {
		case <-ctx.Done():
			return brief(err)
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// brief leaves the Java stack out of a server's reason, which some errors come as.
func brief(err error) error {
	var refused *pulsarx.AdminError
	if !errors.As(err, &refused) {
		return err
	}
	reason, short := refused.Reason, *refused
	for _, start := range []string{"Message:", `{"errorMsg":"`} {
		if _, message, found := strings.Cut(reason, start); found {
			reason, _, _ = strings.Cut(message, `","`)
		}
	}
	short.Reason, _, _ = strings.Cut(strings.TrimSpace(reason), "\n")
	return &short
}

// passing says whether an error may be gone at the next attempt.
func passing(err error) bool {
	var refused *pulsarx.AdminError
	if !errors.As(err, &refused) {
		var broken *net.OpError
		var waited net.Error
		return errors.As(err, &broken) || errors.As(err, &waited) && waited.Timeout() ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	switch refused.Status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return strings.Contains(refused.Reason, "Concurrent modification")
	}
	return false
}

// get reads below base; found is false where there is no such thing.
func (c cluster) get(ctx context.Context, path string, out any) (found bool, err error) {
	err = c.call(ctx, http.MethodGet, path, nil, out)
	if admin.Status(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// noLocalPolicies is what Pulsar says of a namespace that no broker has had a topic of yet: nothing is set.
const noLocalPolicies = "local-policies does not exist"

// unsupported says that the server does not know a policy, or does not show it, which is not the same as one that is not set.
type unsupported struct{ reason string }

func (e unsupported) Error() string { return e.reason }

// read reads a policy below base, which exists, into d.
func (c cluster) read(ctx context.Context, base string, s setting, d declared) error {
	method, path, _ := strings.Cut(s.routes[d.level()].get, " ")
	var answer []byte
	err := c.call(ctx, method, base+"/"+path, nil, &answer)
	if admin.Status(err) == http.StatusNotFound && strings.Contains(err.Error(), noLocalPolicies) {
		return nil
	}
	switch admin.Status(err) {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return unsupported{fmt.Sprintf("the server does not know it: %v", err)}
	case http.StatusUnauthorized, http.StatusForbidden: // as bookieAffinity to a tenant's administrators, who may see the rest
		return unsupported{fmt.Sprintf("the server does not show it: %v", err)}
	}
	if err != nil {
		return err
	}
	return s.read(answer, d)
}

// writer sets a policy. last is false while the other policies of the resource are still to be set.
type writer func(ctx context.Context, c cluster, base string, s setting, d declared, last bool) error

func (c cluster) set(ctx context.Context, base string, s setting, d declared, last bool) error {
	if s.write != nil {
		return s.write(ctx, c, base, s, d, last)
	}
	return c.post(ctx, base, s, d)
}

func (c cluster) post(ctx context.Context, base string, s setting, d declared) error {
	method, path, _ := strings.Cut(s.routes[d.level()].set, " ")
	body := s.body(d)
	if strings.HasSuffix(path, "=") { // the value stands in the query
		path, body = path+fmt.Sprint(body), nil
	}
	return c.call(ctx, method, base+"/"+path, body, nil)
}

func (c cluster) unset(ctx context.Context, base string, s setting, l level) error {
	method, path, _ := strings.Cut(s.routes[l].unset, " ")
	err := c.call(ctx, method, base+"/"+path, s.routes[l].unsetBody, nil)
	if admin.Status(err) == http.StatusNotFound { // gone already
		return nil
	}
	return err
}

// writeQuota sets a quota. Pulsar 4.0.8 refuses any quota of age beside a finite retention, even where it is below; the retention is
// made infinite for that moment, since that deletes nothing.
func writeQuota(ctx context.Context, c cluster, base string, s setting, d declared, last bool) error {
	err := c.post(ctx, base, s, d)
	if admin.Status(err) != http.StatusPreconditionFailed || !last {
		return err
	}
	have := declared{&Policies{}, d.n}
	if failed := c.read(ctx, base, retention, have); failed != nil || have.p.Retention == nil {
		return err
	}
	infinitely := declared{&Policies{Retention: &Retention{Infinite, Infinite}}, d.n}
	if c.post(ctx, base, retention, infinitely) != nil {
		return err
	}
	lifted := c.settled(ctx, base, retention, infinitely)
	if lifted == nil {
		lifted = c.post(ctx, base, s, d)
	}
	if lifted == nil {
		lifted = c.settled(ctx, base, s, d)
	}
	// The retention that was there comes back whatever became of the quota.
	return errors.Join(lifted, c.post(context.WithoutCancel(ctx), base, retention, have))
}

// writeOffload keeps what the server has beside what is declared. Without a driver, each limit has a route of its own.
func writeOffload(ctx context.Context, c cluster, base string, s setting, d declared, _ bool) error {
	want := offloadWire(d.p.Offload)
	if want.Driver != "" {
		var have map[string]any
		if err := c.call(ctx, http.MethodGet, base+"/offloadPolicies", nil, &have); err != nil {
			return err
		}
		body, err := want.overlay(have)
		if err != nil {
			return err
		}
		return c.call(ctx, http.MethodPost, base+"/offloadPolicies", body, nil)
	}
	var have wireOffload
	if err := c.call(ctx, http.MethodGet, base+"/offloadPolicies", nil, &have); err != nil {
		return err
	}
	if have.Driver != "" { // a policy with a driver would be kept
		if err := c.unset(ctx, base, s, namespaceLevel); err != nil {
			return err
		}
	}
	off := int64(-1)
	if err := c.call(ctx, http.MethodPut, base+"/offloadThreshold", *cmp.Or(want.Threshold, &off), nil); err != nil {
		return err
	}
	if err := c.call(ctx, http.MethodPut, base+"/offloadThresholdInSeconds", *cmp.Or(want.Seconds, &off), nil); err != nil {
		return err
	}
	if want.DeletionLag == nil {
		return c.call(ctx, http.MethodDelete, base+"/offloadDeletionLagMs", nil, nil)
	}
	return c.call(ctx, http.MethodPut, base+"/offloadDeletionLagMs", *want.DeletionLag, nil)
}

// settled waits until a policy reads back as d has it: a topic's goes through a topic of the system. Where d does not have it, it
// waits until it is gone.
func (c cluster) settled(ctx context.Context, base string, s setting, d declared) error {
	want := s.unset
	if s.isSet(d) {
		want = s.text(d)
	}
	deadline := time.Now().Add(settleTime)
	for {
		have := d.empty()
		if err := c.read(ctx, base, s, have); err != nil {
			return err
		}
		got := ""
		if s.isSet(have) {
			got = s.text(have)
		}
		if got == want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server took %s, and still says %s after %v", orUnset(want), orUnset(got), settleTime)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePoll):
		}
	}
}

func orUnset(text string) string { return cmp.Or(text, "nothing set") }

// empty declares nothing, at the level of d.
func (d declared) empty() declared {
	if d.n == nil {
		return declared{p: &Policies{}}
	}
	return declared{&Policies{}, &NamespacePolicies{}}
}

// each runs f for 0 to n-1, some at a time, and returns the first error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range min(n, readers) {
		group.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}
