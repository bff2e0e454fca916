package weaviate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	pb "github.com/weaviate/weaviate/grpc/generated/protocol/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-go/tidemark/internal/itemerror"
	"github.com/tidemark-go/tidemark/vectorstore"
)

// write is what one Apply does to one object: its mutations, folded into one.
type write struct {
	id         vectorstore.ID
	tenant     string
	action     vectorstore.Action
	properties map[string]field       // a nil field clears
	vectors    map[string]*pb.Vectors // a nil one clears
	inputs     map[string]string
	version    string
	items      []int // the places of the mutations
	err        error
}

// Apply makes the mutations take effect in order. Those of one object are folded into one before anything is sent, so
// that a call costs a read for its Merges, a write for everything, and a delete; more where batches are split
// (MaxBatch, MaxBatchBytes). A call of more than MaxBatch times MaxInFlight mutations, 256 at least, is done in pieces of so many, of which
// one is made ready while another is under way; one with an object of a piece before it waits for that.
//
// Refused with a permanent error, each by itself, are mutations with an id that is no UUID in lower case
// ([vectorstore.ErrID]), a tenant, a vector that the collection does not have, that is not finite, all zero, or of
// another length than the others of its name ([vectorstore.ErrVector]), a value that its property cannot hold exactly
// ([vectorstore.ErrValue]), and what the server refuses. Items whose request failed, or that the server could not
// store for now, have errors that are not permanent. When one request was all there was and it failed, its error is
// returned as it is.
//
// A Delete first writes the deletion, with its version, then removes the object; an Upsert only writes the object and
// leaves a deletion of the past where it is. So a crash at any point leaves one of two states, both right: until the
// removal, the object is still there, the deletion was never reported as done and is not seen; after it, the deletion
// is. And an object that is there is newer than its deletion, or its removal is yet to be done again.
func (s *Store) Apply(ctx context.Context, m []vectorstore.Mutation) error {
	if s.conn.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(ctx.Err(), s.writable()); err != nil {
		return fmt.Errorf("weaviate: apply: %w", err)
	}
	errs := make([]error, len(m))
	s.applyAll(ctx, m, errs)
	return batchError(errs)
}

// leastPiece is the smallest number of mutations that is a piece of its own.
const leastPiece = 256

// applyAll carries out the mutations in pieces. While one is under way, the next is made ready, so that the server need not wait; more
// than that would be memory in vain.
func (s *Store) applyAll(ctx context.Context, m []vectorstore.Mutation, errs []error) {
	size := max(leastPiece, min(s.pace.most, len(m))*min(s.pace.mostBatch, len(m)))
	dims, down := s.dimensions(), &atomic.Pointer[error]{}
	seen := map[vectorstore.Ref]bool{} // in pieces that may be under way
	var running sync.WaitGroup
	turns := make(chan struct{}, 2)
	for from := 0; from < len(m); from += size {
		piece, errs := m[from:min(from+size, len(m))], errs[from:]
		turns <- struct{}{}
		if slices.ContainsFunc(piece, func(m vectorstore.Mutation) bool { return seen[m.Object.Ref] }) {
			running.Wait()
			clear(seen)
		}
		for i := range piece {
			seen[piece[i].Object.Ref] = true
		}
		parsed := s.parse(ctx, piece, dims, errs)
		running.Go(func() {
			s.applyPiece(ctx, parsed, errs, down)
			<-turns
		})
	}
	running.Wait()
}

// applyPiece carries out parsed mutations, in which refused ones are nil. See putBatch for down.
func (s *Store) applyPiece(ctx context.Context, parsed []*write, errs []error, down *atomic.Pointer[error]) {
	folded := fold(parsed)
	s.do(ctx, folded, errs, down)
	for _, w := range folded {
		if len(w.items) > 1 && itemerror.IsPermanent(w.err) {
			// The server refused what several mutations made together. One by one, it says which, and the others take
			// effect.
			for _, i := range w.items {
				single := *parsed[i]
				s.do(ctx, []*write{&single}, errs, down)
			}
		}
	}
}

// batchError returns nil, the one error that all items have from one failed request, or a *vectorstore.BatchError.
func batchError(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	first := errs[0]
	var failed *callError
	whole := errors.As(first, &failed) || errors.Is(first, ErrClosed)
	for _, err := range errs {
		whole = whole && err == first //nolint:errorlint // the very same error, not one like it
	}
	if whole {
		return first
	}
	return vectorstore.NewBatchError(errs)
}

// parse checks and converts every mutation by itself, as a write of its own. A place is nil where errs has an error. It adds lengths of
// vectors to dims.
func (s *Store) parse(ctx context.Context, m []vectorstore.Mutation, dims map[string]int, errs []error) []*write {
	values := make([]map[string]any, len(m))
	samples := map[string]any{}
	for i := range m {
		if values[i], errs[i] = s.check(&m[i]); errs[i] == nil {
			sample(samples, values[i])
		}
	}
	known, refusedNames := s.extend(ctx, samples)
	out := make([]*write, len(m))
	for i := range m {
		if errs[i] != nil {
			continue
		}
		o := &m[i].Object
		w := &write{id: o.ID, tenant: o.Tenant, action: m[i].Action, version: o.Version, inputs: o.Inputs, items: []int{i}}
		var err error
		if w.properties, err = encodeProperties(known, refusedNames, values[i]); err == nil && w.action != vectorstore.Delete {
			w.vectors, err = s.encodeVectors(o, dims)
		}
		if err != nil {
			errs[i] = objectError(w.id, err)
			continue
		}
		out[i] = w
	}
	return out
}

// check checks what needs no schema, and returns the properties as canonical values.
func (s *Store) check(m *vectorstore.Mutation) (map[string]any, error) {
	o := &m.Object
	if err := o.ID.Check(); err != nil {
		return nil, fmt.Errorf("weaviate: %w", err)
	}
	if err := s.checkTenant(o.Tenant); err != nil {
		return nil, objectError(o.ID, err)
	}
	if !utf8.ValidString(o.Version) {
		return nil, objectError(o.ID, valueError("the version is not valid UTF-8"))
	}
	switch m.Action {
	case vectorstore.Upsert, vectorstore.Merge:
	case vectorstore.Delete:
		return nil, nil
	default:
		return nil, objectError(o.ID, vectorstore.Permanent(fmt.Errorf("unknown action %v", m.Action)))
	}
	for name, digest := range o.Inputs {
		if !utf8.ValidString(name) || !utf8.ValidString(digest) {
			return nil, objectError(o.ID, valueError("an input is not valid UTF-8"))
		}
	}
	values := make(map[string]any, len(o.Properties))
	for name, v := range o.Properties {
		err := nameError(validateName(name, true))
		if err == nil {
			if values[name], err = canonical(v); err != nil {
				err = fmt.Errorf("property %q: %w", name, err)
			}
		}
		if err != nil {
			return nil, objectError(o.ID, err)
		}
	}
	return values, nil
}

func encodeProperties(known *schema, refusedNames map[string]error, values map[string]any) (map[string]field, error) {
	out := make(map[string]field, len(values))
	for name, v := range values {
		if v == nil {
			out[name] = nil
			continue
		}
		err := refusedNames[name]
		if err == nil {
			out[name], err = encode(known.properties[name], v)
		}
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", name, err)
		}
	}
	return out, nil
}

// fold makes one write of all that concern one object, with the effect that they have one after the other. It leaves
// parsed, in which refused mutations are nil, as it is.
func fold(parsed []*write) []*write {
	var out []*write
	byRef := map[vectorstore.Ref]*write{}
	for _, next := range parsed {
		if next == nil {
			continue
		}
		w := *next
		if before := byRef[w.ref()]; before != nil {
			w.after(before)
			*before = w
			continue
		}
		byRef[w.ref()] = &w
		out = append(out, &w)
	}
	return out
}

func (w *write) ref() vectorstore.Ref { return vectorstore.Ref{ID: w.id, Tenant: w.tenant} }

// after makes w what it is when it follows before.
func (w *write) after(before *write) {
	w.items = slices.Concat(before.items, w.items)
	if w.action != vectorstore.Merge {
		return // an Upsert or a Delete leaves nothing of what was before
	}
	if before.action == vectorstore.Delete {
		w.action = vectorstore.Upsert
		return
	}
	w.action = before.action
	w.keep(before)
}

// keep takes from old what w lacks.
func (w *write) keep(old *write) {
	w.properties = overlay(old.properties, w.properties)
	w.vectors = overlay(old.vectors, w.vectors)
	w.inputs = overlay(old.inputs, w.inputs)
	w.version = cmp.Or(w.version, old.version)
}

func overlay[V any](old, over map[string]V) map[string]V {
	out := make(map[string]V, len(old)+len(over))
	maps.Copy(out, old)
	maps.Copy(out, over)
	return out
}

// do carries out writes to different objects, and puts their errors in the places of their mutations.
func (s *Store) do(ctx context.Context, writes []*write, errs []error, down *atomic.Pointer[error]) {
	s.readMerges(ctx, writes)
	s.put(ctx, writes, down)
	s.remove(ctx, writes)
	for _, w := range writes {
		for _, i := range w.items {
			errs[i] = w.err
		}
	}
}

// readMerges completes every Merge with what is stored, since a put replaces the whole object: what is not sent,
// vectors too, is gone. A Merge becomes an Upsert.
func (s *Store) readMerges(ctx context.Context, writes []*write) {
	byTenant := map[string]map[vectorstore.ID]*write{}
	for _, w := range writes {
		if w.action == vectorstore.Merge {
			if byTenant[w.tenant] == nil {
				byTenant[w.tenant] = map[vectorstore.ID]*write{}
			}
			byTenant[w.tenant][w.id] = w
		}
	}
	if len(byTenant) == 0 {
		return
	}
	var err error
	if s.schema.Load().explicit != nil { // a property that another process has added would not be asked for, and be lost
		_, err = s.reload(ctx)
	}
	for tenant, byID := range byTenant {
		s.readTenant(ctx, tenant, byID, err)
	}
}

// readTenant completes the Merges of a tenant, unless err says why it cannot be.
func (s *Store) readTenant(ctx context.Context, tenant string, byID map[vectorstore.ID]*write, err error) {
	names := make([]string, 0, len(byID))
	for id := range byID {
		names = append(names, string(id))
	}
	var readings []reading
	if err == nil {
		readings, err = s.byID(ctx, tenant, s.collection, names)
	}
	for _, w := range byID {
		w.action, w.err = vectorstore.Upsert, err
	}
	for _, r := range readings {
		w := byID[r.id]
		if w == nil {
			continue
		}
		stored, err := s.stored(ctx, r)
		if err != nil {
			w.err = objectError(w.id, err)
			continue
		}
		w.keep(stored)
	}
}

// stored returns the write that would put an object as it is stored.
func (s *Store) stored(ctx context.Context, r reading) (*write, error) {
	o, err := r.parse()
	if err != nil {
		return nil, err
	}
	known := s.schema.Load()
	if len(missingProperties(known, o.Properties)) > 0 { // added by another process
		if known, err = s.reload(ctx); err != nil {
			return nil, err
		}
	}
	w := &write{inputs: o.Inputs, version: o.Version, vectors: map[string]*pb.Vectors{}}
	if w.properties, err = encodeProperties(known, nil, o.Properties); err != nil {
		return nil, err
	}
	for name, v := range o.Vectors {
		w.vectors[name] = singleMessage(name, v)
	}
	for name, v := range o.MultiVectors {
		w.vectors[name] = multiMessage(name, v)
	}
	return w, nil
}

// message is the object to put for w, itself or the deletion to remember, and what it adds to the size of a request.
func (s *Store) message(w *write) (*pb.BatchObject, int, error) {
	values := &pb.ObjectPropertiesValue{}
	if w.version != "" {
		setText(values, versionProperty, w.version)
	}
	out := &pb.BatchObject{Uuid: string(w.id), Tenant: w.tenant, Collection: s.tombstones}
	if w.action != vectorstore.Delete {
		out.Collection = s.collection
		inputs := maps.Clone(w.inputs)
		maps.DeleteFunc(inputs, func(_, digest string) bool { return digest == "" })
		if len(inputs) > 0 {
			text, err := json.Marshal(inputs)
			if err != nil {
				return nil, 0, err
			}
			setText(values, inputsProperty, string(text))
		}
		for name, f := range w.properties {
			if f != nil {
				f(values, name)
			}
		}
		for name, v := range w.vectors {
			switch {
			case v == nil:
			case name == "":
				out.VectorBytes = v.GetVectorBytes()
			default:
				out.Vectors = append(out.Vectors, v)
			}
		}
	}
	out.Properties = &pb.BatchObject_Properties{
		NonRefProperties: values.NonRefProperties, NumberArrayProperties: values.NumberArrayProperties,
		IntArrayProperties: values.IntArrayProperties, TextArrayProperties: values.TextArrayProperties,
		BooleanArrayProperties: values.BooleanArrayProperties, ObjectProperties: values.ObjectProperties,
		ObjectArrayProperties: values.ObjectArrayProperties, EmptyListProps: values.EmptyListProps,
	}
	size := proto.Size(out) + batchOverhead
	if size > s.conn.sendLimit {
		return nil, 0, sizeError(size)
	}
	return out, size, nil
}

// batchOverhead is more than what a request adds to the size of a single object.
const batchOverhead = 64

func sizeError(size int) error {
	return vectorstore.Permanent(fmt.Errorf("%d bytes are more than the server takes in a message", size))
}

// put writes objects and deletions, in batches of which several are under way.
func (s *Store) put(ctx context.Context, writes []*write, down *atomic.Pointer[error]) {
	var batch []*write
	var objects []*pb.BatchObject
	size, most := 0, s.pace.batch(ctx)
	var sending sync.WaitGroup
	flush := func() {
		sent, message := batch, objects
		batch, objects, size, most = nil, nil, 0, s.pace.batch(ctx)
		if len(sent) == 0 {
			return
		}
		if err := s.pace.begin(ctx); err != nil {
			fail(sent, newCallError(ctx, "write", s.conn.grpcAddr, err))
			return
		}
		sending.Go(func() { s.putBatch(ctx, sent, message, down) })
	}
	for _, w := range writes {
		if w.err != nil {
			continue
		}
		object, more, err := s.message(w)
		if err != nil {
			w.err = objectError(w.id, err)
			continue
		}
		if len(batch) >= most || size+more > s.maxBytes {
			flush()
		}
		batch, objects, size = append(batch, w), append(objects, object), size+more
	}
	flush()
	sending.Wait()
}

func fail(writes []*write, err error) {
	for _, w := range writes {
		w.err = err
	}
}

// putBatch sends a batch, whose turn in the pace has come, and gives the turn back. Where nobody answers, after all repetitions, down
// is set, and the batches that come after it fail without waiting for the same.
func (s *Store) putBatch(ctx context.Context, writes []*write, objects []*pb.BatchObject, down *atomic.Pointer[error]) {
	start := time.Now()
	if err := down.Load(); err != nil {
		fail(writes, *err)
	} else {
		s.sendCleaned(ctx, writes, objects)
	}
	slowed := false
	for _, w := range writes {
		code := status.Code(w.err)
		slowed = slowed || code == codes.Unavailable || code == codes.ResourceExhausted || code == codes.DeadlineExceeded
		if code == codes.Unavailable {
			down.CompareAndSwap(nil, &w.err)
		}
	}
	s.pace.end(ctx, len(writes), time.Since(start), slowed)
}

// sendCleaned sends a batch. Spoiled objects that the server has then taken, so that it can write, are removed and sent once more.
func (s *Store) sendCleaned(ctx context.Context, writes []*write, objects []*pb.BatchObject) {
	s.send(ctx, writes, objects)
	var again []*write
	var messages []*pb.BatchObject
	for i, w := range writes {
		if at := (place{objects[i].GetCollection(), w.tenant, string(w.id)}); w.err == nil && s.spoiled.has(at) {
			if w.err = s.clean(ctx, at); w.err == nil {
				again, messages = append(again, w), append(messages, objects[i])
			}
		}
	}
	if len(again) > 0 {
		s.send(ctx, again, messages)
	}
}

// send sends one request, aligned with writes. One that is too large for a server with a lower limit is halved.
func (s *Store) send(ctx context.Context, writes []*write, objects []*pb.BatchObject) {
	reply, err := call(ctx, s.conn, "write", s.conn.client.BatchObjects, &pb.BatchObjectsRequest{
		Objects: objects, ConsistencyLevel: s.write,
	})
	switch {
	case err != nil && tooLarge(err) && len(writes) > 1:
		half := len(writes) / 2
		s.send(ctx, writes[:half], objects[:half])
		s.send(ctx, writes[half:], objects[half:])
		return
	case err != nil && tooLarge(err):
		writes[0].err = objectError(writes[0].id, fmt.Errorf("%w: %w", sizeError(proto.Size(objects[0])), err))
		return
	case err != nil:
		fail(writes, err)
		return
	}
	outage := map[string]string{} // by collection and tenant
	for _, e := range reply.GetErrors() {
		if i := int(e.GetIndex()); i >= 0 && i < len(writes) {
			writes[i].err = objectError(writes[i].id, serverError(e.GetError()))
			if !refused(e.GetError()) {
				outage[shardOf(objects[i])] = e.GetError()
			}
		}
	}
	for i, w := range writes {
		// Weaviate reports some failures of a whole shard on its first object alone and calls the others done: a
		// shard that is read-only, an index queue that is full. So none of the collection's objects is known to be
		// done; writing them again is harmless.
		text, out := outage[shardOf(objects[i])]
		if out && w.err == nil {
			err := fmt.Errorf("not known to be stored, since the server failed beside it: %w", serverError(text))
			w.err = objectError(w.id, err)
		}
		if w.err == nil {
			s.stores(objects[i])
		} else if out && !strings.Contains(text, "read-only") { // of which it has written nothing
			s.spoiled.note(place{objects[i].GetCollection(), w.tenant, string(w.id)})
		}
	}
}

// shardOf names what fails together.
func shardOf(o *pb.BatchObject) string { return o.GetCollection() + "/" + o.GetTenant() }

// stores notes the dimensions of an object that is stored.
func (s *Store) stores(o *pb.BatchObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range o.GetVectors() {
		s.learn(v.GetName(), lengthOf(v))
	}
	s.learn("", len(o.GetVectorBytes())/4)
}
