package cdc

import "reflect"

// Merge writes the event's row into what is stored: every column that the event has a value for, NULL included, and none that is
// Unavailable, so that a long text which an update left as it was stays. Fields that are no columns stay too, and for T = Row the columns
// that the event lacks. Pointers, slices and maps are shared with After, not copied. Nothing happens on events without a row After:
// deletes, tombstones, truncates and logical messages.
//
// An event that no decoder has made replaces the whole row.
func (e *Event[T]) Merge(into *T) {
	if e.After == nil {
		return
	}
	if row, ok := any(into).(*Row); ok {
		row.merge(*any(e.After).(*Row))
		return
	}
	s := e.columns.shape
	if s == nil {
		*into = *e.After
		return
	}
	dst, src := reflect.ValueOf(into).Elem(), reflect.ValueOf(e.After).Elem()
	for i, f := range s.fields {
		if f != nil && !s.dead[i] && e.columns.states[i]&stateUnavailable == 0 {
			f.at(dst).Set(f.at(src))
		}
	}
}

func (r *Row) merge(from Row) {
	for _, c := range from {
		if at := r.index(c.Name); at >= 0 {
			(*r)[at].Value = c.Value
		} else {
			*r = append(*r, c)
		}
	}
}
