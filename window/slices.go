package window

// intoSlices adds an event to its slice, and fires again the windows that have fired without it.
func (o *Operator[K, V, A, R]) intoSlices(t Timestamp, v V, emit func(Result[K, R])) Outcome {
	z := o.sliding
	slice, first, last := z.locate(t)
	kept := z.firstKept(o.now)
	if last < kept {
		return o.missed(t)
	}
	id := o.lookup(v)
	if id < 0 {
		return Refused
	}
	c := o.keys.cells(id)
	o.keys.stale[id] = true
	if o.options.Deterministic && first < z.firstOpen(o.now) {
		return o.besideSlices(id, o.keys.at(id), first, last, v)
	}
	pos, found := c.find(slice)
	if m := &o.keys.memory; !found {
		if n := o.options.MaxWindowsPerKey; n > 0 && len(c.live()) >= n || !m.ample(int64(len(c.live())+1)*m.slice, m.slice) && !o.fits(id, o.keys.at(id), m.slice) {
			return o.refuse(id)
		}
		c.insert(pos, slice)
		m.windows += m.slice
	} else if m.sized() && !o.fits(id, o.keys.at(id), 0) {
		return Refused
	}
	o.put(id, &c.live()[pos].acc, v)
	c.changed(slice)
	n, open := max(first, kept), z.firstOpen(o.marks.combined)
	for ; n <= last && n < open; n++ {
		o.emitShared(o.keys.at(id), n, Updated, emit)
	}
	if n <= last {
		o.require(c, n, id)
	} else {
		o.cleanCells(id, c)
	}
	return Accepted
}

// besideSlices is for an event of a deterministic operator that its partition's watermark has passed for some of its windows, which
// may not have fired yet. So it may not be in a slice that they share with the others, and each window has it by itself.
func (o *Operator[K, V, A, R]) besideSlices(id int32, s *slot[K, A], first, last int64, v V) Outcome {
	o.bounds = o.bounds[:0]
	for n := first; n <= last; n++ {
		if w := o.sliding.window(n); !o.gone(w) {
			o.bounds = append(o.bounds, w)
		}
	}
	if !o.room(id, s) {
		return o.refuse(id)
	}
	before := o.keys.weight(s)
	for _, w := range o.bounds {
		late := w.last() <= o.now
		e := s.open(w, late)
		o.put(id, &e.acc, v)
		e.events++
		o.schedule(id, e)
		if !late {
			o.require(s.cells, o.sliding.number(w), id)
		}
	}
	o.keys.account(id, s, before)
	return Accepted
}

// require sees to it that a window of the key fires.
func (o *Operator[K, V, A, R]) require(c *cells[A], n int64, id int32) {
	if !c.waits || n < c.due {
		c.due, c.waits = n, true
		o.sliding.timers.add(o.sliding.window(n).last(), id)
	}
}
