package memory

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// snapshotFormat is the first value of a snapshot.
const snapshotFormat = "tidemark memory snapshot 1"

func init() { // the types of property values that gob does not know by itself
	gob.Register(time.Time{})
	gob.Register([]time.Time{})
	gob.Register(map[string]any{})
	gob.Register([]map[string]any{})
	gob.Register(vectorstore.Geo{})
	gob.Register(vectorstore.Phone{})
}

// Save writes all objects and remembered deletions, as they are at one moment, to a file that takes the place of an older one
// when it is complete and synced: after a crash, one of the two is there. It is read by [Load].
func (s *Store) Save(ctx context.Context, path string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("memory: save: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
			err = fmt.Errorf("memory: save: %w", err)
		}
	}()
	out := bufio.NewWriter(file)
	if err := s.write(ctx, gob.NewEncoder(out)); err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func (s *Store) write(ctx context.Context, to *gob.Encoder) error {
	s.mu.RLock()
	entries := slices.Collect(maps.Values(s.objects)) // none of which ever changes
	s.mu.RUnlock()
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(string(a.ID), string(b.ID)))
	})
	if err := errors.Join(to.Encode(snapshotFormat), to.Encode(len(entries))); err != nil {
		return err
	}
	for _, e := range entries {
		if err := cmp.Or(ctx.Err(), to.Encode(&e.Object)); err != nil {
			return err
		}
	}
	return nil
}

// Load returns a store with what [Store.Save] has written. A file that is cut off, or has what the store would refuse, is an
// error. So is one that does not exist: errors.Is finds fs.ErrNotExist.
func Load(ctx context.Context, path string) (*Store, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("memory: load: %w", err)
	}
	defer func() { _ = file.Close() }()
	s := New()
	if err := s.read(ctx, gob.NewDecoder(bufio.NewReader(file))); err != nil {
		return nil, fmt.Errorf("memory: load: %w", err)
	}
	return s, nil
}

func (s *Store) read(ctx context.Context, from *gob.Decoder) error {
	var format string
	var count int
	if err := from.Decode(&format); err != nil || format != snapshotFormat {
		return errors.New("the file is no snapshot of this format")
	}
	if err := from.Decode(&count); err != nil {
		return err
	}
	for i := range count {
		var o vectorstore.Object
		if err := from.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("object %d of %d: %w", i, count, err)
		}
		for name, v := range o.Properties {
			o.Properties[name] = refill(v)
		}
		m := vectorstore.Mutation{Object: o}
		if o.Deleted {
			m.Action = vectorstore.Delete
		}
		if err := s.Apply(ctx, []vectorstore.Mutation{m}); err != nil {
			return err
		}
	}
	return nil
}

// refill puts the empty lists and maps back that gob reads as nil.
func refill(v any) any {
	r := reflect.ValueOf(v)
	switch {
	case r.Kind() == reflect.Slice && r.IsNil():
		return reflect.MakeSlice(r.Type(), 0, 0).Interface()
	case r.Kind() == reflect.Map && r.IsNil():
		return map[string]any{}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			v[name] = refill(item)
		}
	case []map[string]any:
		for i, item := range v {
			v[i] = refill(item).(map[string]any)
		}
	}
	return v
}
