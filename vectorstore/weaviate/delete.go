package weaviate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// remove deletes the objects of the writes whose deletion is now remembered.
func (s *Store) remove(ctx context.Context, writes []*write) {
	var deletes []*write
	for _, w := range writes {
		if w.action == vectorstore.Delete && w.err == nil {
			deletes = append(deletes, w)
		}
	}
	byTenant := map[string][]*write{}
	for _, w := range deletes {
		byTenant[w.tenant] = append(byTenant[w.tenant], w)
	}
	for tenant, deletes := range byTenant {
		s.removeFrom(ctx, tenant, deletes)
	}
}

func (s *Store) removeFrom(ctx context.Context, tenant string, deletes []*write) {
	for chunk := range slices.Chunk(deletes, maxIDs) {
		ids := make([]string, len(chunk))
		byID := make(map[string]*write, len(chunk))
		for i, w := range chunk {
			ids[i] = string(w.id)
			byID[ids[i]] = w
		}
		_, failed, err := s.deleteAll(ctx, tenant, s.collection, withIDs(ids))
		for _, w := range chunk {
			w.err = err
			if at := (place{s.collection, tenant, string(w.id)}); err == nil && s.spoiled.has(at) {
				w.err = s.clean(ctx, at)
			}
		}
		for id, text := range failed {
			if w := byID[id]; w != nil {
				w.err = objectError(w.id, fmt.Errorf("delete: %w", serverError(text)))
			}
		}
	}
}

// deleteAll deletes what matches to the end: the server stops at QUERY_MAXIMUM_RESULTS matches and says only in the
// counts of its answer that there are more. It returns how many were deleted and, by id, what the server said about
// objects that it could not delete.
func (s *Store) deleteAll(ctx context.Context, tenant, collection string, filter *pb.Filters) (int, map[string]string, error) {
	req := &pb.BatchDeleteRequest{Collection: collection, Filters: filter, Verbose: true, ConsistencyLevel: s.write}
	if s.tenants {
		req.Tenant = &tenant
	}
	n, woken := 0, false
	for {
		reply, err := call(ctx, s.conn, "delete", s.conn.client.BatchDelete, req)
		if s.tenants && noTenant(err) {
			return n, nil, nil // nothing was written to it yet
		}
		if s.tenants && asleep(err) && !woken {
			if err := s.wake(ctx, collection, tenant); err != nil {
				return n, nil, err
			}
			woken = true
			continue
		}
		if err != nil {
			return n, nil, err
		}
		n += int(reply.GetSuccessful())
		if reply.GetFailed() > 0 {
			failed, err := failures(reply)
			return n, failed, err
		}
		if reply.GetSuccessful() >= reply.GetMatches() {
			return n, nil, nil
		}
		if reply.GetSuccessful() == 0 {
			return n, nil, fmt.Errorf("weaviate: delete from %s: none of %d matches was deleted", collection, reply.GetMatches())
		}
	}
}

// failures returns the errors of the objects. Where the answer names fewer than it counts, or its matches go on
// beyond it, nothing is known of the others: then the error is for all.
func failures(reply *pb.BatchDeleteReply) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range reply.GetObjects() {
		if o.GetSuccessful() {
			continue
		}
		if len(o.GetUuid()) != 16 {
			return nil, errors.New("weaviate: delete: the server sent an id that is no UUID")
		}
		out[uuidText([16]byte(o.GetUuid()))] = o.GetError()
	}
	if int64(len(out)) < reply.GetFailed() || reply.GetSuccessful()+reply.GetFailed() < reply.GetMatches() {
		return nil, fmt.Errorf("weaviate: delete: %d of %d objects failed", reply.GetFailed(), reply.GetMatches())
	}
	return out, nil
}

// DeleteWhere forgets the objects of which a filter is true, to the end: 10,000 at a time by default, as the server limits
// it. It returns how many were deleted, also beside an error. The filter must not be the zero Filter. Like Clear it
// remembers no deletion: a late event may bring an object back. To remember them, give their ids to Apply.
func (s *Store) DeleteWhere(ctx context.Context, tenant string, f vectorstore.Filter) (int, error) {
	if err := cmp.Or(s.writable(), s.checkTenant(tenant)); err != nil {
		return 0, err
	}
	if err := f.Check(); err != nil {
		return 0, fmt.Errorf("weaviate: delete: %w", err)
	}
	filter, err := filterMessage(f, s.schema.Load())
	if err == nil && filter == nil {
		err = valueError("the zero Filter is true of everything; use Clear")
	}
	if err != nil {
		return 0, fmt.Errorf("weaviate: delete: %w", err)
	}
	return s.clear(ctx, tenant, s.collection, filter)
}

// Clear forgets all objects, then all remembered deletions. It deletes by filter to the end, 10,000 at a time by
// default, rather than drop and create the collections: so there is no moment at which they are missing for other
// processes, whose writes would fail or, by auto-schema, create them wrong. It is not atomic: objects written
// meanwhile may stay, and after an error some are left; clearing again finishes it. It concerns one tenant, where the
// collection has some.
func (s *Store) Clear(ctx context.Context, tenant string) error {
	if err := cmp.Or(s.writable(), s.checkTenant(tenant)); err != nil {
		return err
	}
	for _, collection := range []string{s.collection, s.tombstones} {
		if _, err := s.clear(ctx, tenant, collection, everything); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes what matches and counts it; an object that cannot be deleted is the error.
func (s *Store) clear(ctx context.Context, tenant, collection string, filter *pb.Filters) (int, error) {
	n, failed, err := s.deleteAll(ctx, tenant, collection, filter)
	if err != nil {
		return n, err
	}
	for id, text := range failed {
		return n, fmt.Errorf("weaviate: clear %s: %d objects were not deleted, %s among them: %w",
			collection, len(failed), id, serverError(text))
	}
	return n, nil
}

// ClearBefore forgets the objects, then the remembered deletions, whose version is less. It reads the ids and versions
// of all, a page at a time, and deletes by id, since versions are in no index. It is no more atomic than Clear: an object
// that another process replaces between the two is deleted with its newer version. It concerns one tenant, where the
// collection has some.
//
// In a collection with replicas, one of them lists what is there, as the server does for every search. How old that is, as many say as
// ReadConsistency asks for, so that nothing is lost of which the one has an old version. What it has missed altogether, since it was down,
// is not cleared: clear again once it is repaired, or let [vectorstore.Sink.Reconcile] find then what is too many.
func (s *Store) ClearBefore(ctx context.Context, tenant, version string) error {
	if err := cmp.Or(s.writable(), s.checkTenant(tenant)); err != nil {
		return err
	}
	for _, collection := range []string{s.collection, s.tombstones} {
		if err := s.clearBefore(ctx, tenant, collection, version); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) clearBefore(ctx context.Context, tenant, collection, version string) error {
	after := firstID
	for {
		reply, err := call(ctx, s.conn, "clear", s.conn.client.Search, &pb.SearchRequest{
			Tenant: tenant, Collection: collection, Limit: maxIDs, After: after, Uses_127Api: true, ConsistencyLevel: s.read,
			Metadata:   &pb.MetadataRequest{Uuid: true},
			Properties: &pb.PropertiesRequest{NonRefProperties: []string{versionProperty}},
		})
		if s.tenants && noTenant(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var old []string
		for _, result := range reply.GetResults() {
			after = result.GetMetadata().GetId()
			o, err := parseObject(result)
			if err != nil {
				return objectError(vectorstore.ID(after), err)
			}
			if o.Version < version {
				old = append(old, after)
			}
		}
		if len(old) > 0 && s.votes() {
			if old, err = s.olderThan(ctx, tenant, collection, version, old); err != nil {
				return err
			}
		}
		if len(old) > 0 {
			if _, err := s.clear(ctx, tenant, collection, withIDs(old)); err != nil {
				return err
			}
		}
		if len(reply.GetResults()) < maxIDs {
			return nil
		}
	}
}

// olderThan returns which of these objects are older by what as many replicas as ReadConsistency asks for say of them. The one that
// listed them may have missed what they are now.
func (s *Store) olderThan(ctx context.Context, tenant, collection, version string, ids []string) (old []string, err error) {
	readings, err := s.byID(ctx, tenant, collection, ids)
	for _, r := range readings {
		o, err := r.parse()
		if err != nil {
			return nil, objectError(r.id, err)
		}
		if o.Version < version {
			old = append(old, string(r.id))
		}
	}
	return old, err
}

// firstID is the place where a list begins: with one, the server lists by id.
const firstID = "00000000-0000-0000-0000-000000000000"

// everything matches every object, whatever its id.
var everything = &pb.Filters{
	Operator: pb.Filters_OPERATOR_LIKE, Target: &pb.FilterTarget{Target: &pb.FilterTarget_Property{Property: "_id"}},
	TestValue: &pb.Filters_ValueText{ValueText: "*"},
}
