package vectorstore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/cdc"
)

// partial is a row as far as it is known: of some columns an event says that the change left them as they were, but not
// what they are. What reads none of them is made anew; what reads one is kept as it is stored, which is right as long
// as it reads nothing else that has changed.
type partial[T any] struct {
	row     T
	missing []string // the columns whose values are unknown
	stored  *Object  // what shows the row before, nil where nothing does
	origin  bool     // stored is the object of the key that the row had before
	columns *columns
}

// maxMoves bounds how many primary-key changes of one row are followed within a batch.
const maxMoves = 64

// state merges the row after the i-th change of r from those before it, back to one that has every column. It goes on in
// the row that a primary-key change took over.
func (r *row[T]) state(i int, known *columns) (*partial[T], error) {
	c := &r.history[i]
	p := &partial[T]{columns: known, missing: c.UnavailableColumns()}
	chain := []*cdc.Event[T]{c.Event}
	at, arrived, moves := r, c, 0
	for ; i >= 0 && !at.history[i].deletes(); i-- {
		e := &at.history[i]
		if len(p.missing) > 0 && e.Event != c.Event {
			chain = append(chain, e.Event)
			p.missing = both(p.missing, e.UnavailableColumns())
		}
		if e.from != nil && !e.shownBy(at.stored) && moves < maxMoves {
			at, arrived, i = e.from, e, e.from.departure(e)+1
			p.origin, moves = true, moves+1
		}
	}
	if o := at.stored; i < 0 && o != nil && !o.Deleted && (at == r || arrived.follows(o)) {
		p.stored = o
	}
	for _, e := range slices.Backward(chain) {
		e.Merge(&p.row)
	}
	var unknown string
	if p.missing, unknown = known.resolve(p.missing); unknown != "" {
		return nil, Permanent(fmt.Errorf("%w: %s: no field of the row's type is known to be it", ErrUnavailable, unknown))
	}
	return p, nil
}

// shownBy says whether an object shows a change already: this very event, or an earlier one of the same place in the log, as a source
// that starts again sends.
func (c *change[T]) shownBy(o *Object) bool {
	before := versionOf(o)
	return c.repeat || o != nil && !o.Deleted && c.Source.LSN != 0 && before.LSN == c.Source.LSN && before.Epoch == c.position.Epoch
}

// follows says whether a change is known to come after what an object shows.
func (c *change[T]) follows(o *Object) bool {
	order, known := c.position.Compare(versionOf(o))
	return known && order > 0
}

// departure returns the index of the last change before the row left for the key of created.
func (r *row[T]) departure(created *change[T]) int {
	i := slices.IndexFunc(r.history, func(c change[T]) bool {
		again := c.Op == cdc.OpDelete && c.Source.LSN != 0 && c.Source.LSN == created.Source.LSN // the source sent it before, too
		return again || c.at == created.left
	})
	if i < 0 { // the store has it, or it is still to come
		i = len(r.history)
		for i > 0 && !r.history[i-1].before(created) {
			i--
		}
	}
	return i - 1
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// variants returns the row with other values in some columns.
func (p *partial[T]) variants(names []string) []T {
	out := make([]T, len(probes))
	for i, probe := range probes {
		out[i] = p.row
		p.columns.fill(reflect.ValueOf(&out[i]).Elem(), names, probe)
	}
	return out
}

// differs says whether a function of the row answers something else when the given columns have other values. A
// function that cannot bear the other values counts as one that reads them.
func (p *partial[T]) differs(names []string, f func(T) any) (yes bool) {
	if len(names) == 0 {
		return false
	}
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	before := f(p.row)
	for _, other := range p.variants(names) {
		if !reflect.DeepEqual(before, f(other)) {
			return true
		}
	}
	return false
}

// keeps says whether what f makes of the row must stay as it is stored, because f reads a column whose value is
// unknown. It is an error when f reads a column that has changed as well.
func (p *partial[T]) keeps(f func(T) any) (bool, error) {
	if !p.differs(p.missing, f) {
		return false, nil
	}
	if p.stored == nil {
		return false, p.unavailable("nothing is stored that has them")
	}
	if p.differs(p.changed(), f) {
		return false, p.unavailable("what is made of them is also made of columns that have changed, or may have")
	}
	return true, nil
}

// changed returns the known columns that are not known to be as they are stored.
func (p *partial[T]) changed() []string {
	return p.columns.changed(reflect.ValueOf(p.row), p.missing, p.stored.Inputs[columnsInput])
}

func (p *partial[T]) unavailable(why string) error {
	return Permanent(fmt.Errorf("%w: %s: %s; let the database log whole rows with ALTER TABLE ... REPLICA IDENTITY FULL, or, where "+
		"the table has no such column, leave it out of the row's type", ErrUnavailable, strings.Join(p.missing, ", "), why))
}

// keepsVector says whether a vector stays as it is stored.
func (p *partial[T]) keepsVector(v *Vector[T], r Ref) (bool, error) {
	if len(p.missing) == 0 || v.Only != nil && !v.Only(string(r.ID)) {
		return false, nil
	}
	kept, err := p.keeps(func(row T) any { digest, _ := v.digest.sum(v.input(row)); return digest })
	if err == nil && kept && !v.digest.sameModel(p.stored.Inputs[v.Name]) {
		err = p.unavailable("another model must embed them")
	}
	if err != nil {
		return false, fmt.Errorf("vector %q: %w", v.Name, err)
	}
	return kept, nil
}

// wanted says whether the row qualifies. Where that hangs on unknown columns, a stored row does, unless the columns that
// are known exclude it.
func (m *Mapping[T]) wanted(p *partial[T]) (bool, error) {
	if m.Filter == nil {
		return true, nil
	}
	first := m.Filter(p.row)
	if !p.differs(p.missing, func(row T) any { return m.Filter(row) }) {
		return first, nil
	}
	if p.stored == nil {
		return false, fmt.Errorf("the filter: %w", p.unavailable("nothing is stored that has them"))
	}
	return true, nil
}

// properties returns what the mapping makes of the row, in a map of its own, and the names of the properties that stay
// as they are stored.
func (p *partial[T]) properties(f func(T) map[string]any) (out map[string]any, kept map[string]bool, err error) {
	out = map[string]any{}
	if f == nil {
		return out, nil, nil
	}
	maps.Copy(out, f(p.row))
	if len(p.missing) == 0 {
		return out, nil, nil
	}
	names := maps.Clone(out)
	for _, other := range p.variants(p.missing) {
		maps.Copy(names, f(other))
	}
	kept = map[string]bool{}
	for name := range names {
		if kept[name], err = p.keeps(func(row T) any {
			v, there := f(row)[name]
			return [2]any{v, there}
		}); err != nil {
			return nil, nil, fmt.Errorf("property %q: %w", name, err)
		}
		if kept[name] {
			delete(out, name)
		}
	}
	return out, kept, nil
}
