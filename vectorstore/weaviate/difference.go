package weaviate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparison is how a collection that is there differs from a wanted one.
type comparison struct {
	fixed   []Difference // what the server changes in no collection that is there
	mutable []Difference // what it does: by changes, and by adding properties
	// changes are the fields of the collection's JSON to set, those of mutable.
	changes    map[string]any
	properties []classProperty // to add
}

func (c *comparison) differ(field string, have, want any) {
	c.fixed = append(c.fixed, Difference{field, fmt.Sprint(have), fmt.Sprint(want)})
}

// change notes a difference that the server can mend, by the value in the place of the collection's JSON that path names.
func (c *comparison) change(field string, have, want, value any, path ...string) {
	c.mutable = append(c.mutable, Difference{field, fmt.Sprint(have), fmt.Sprint(want)})
	at := c.changes
	for _, name := range path[:len(path)-1] {
		inner, _ := at[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	at[path[len(path)-1]] = value
}

// compare says where have does not do what want needs.
func (want class) compare(have class) *comparison {
	c := &comparison{changes: map[string]any{}}
	if have.Class != want.Class {
		c.differ("the name that the server answers with", have.Class, want.Class)
	}
	if strings.HasPrefix(have.Description, remembering) && want.Description == "" {
		c.differ("what it holds", "remembered deletions", "objects")
	}
	c.compareTenancy(have.MultiTenancy, want.MultiTenancy)
	if have.Vectorizer != "" && have.Vectorizer != "none" {
		c.differ("vectorizer", have.Vectorizer, "none")
	}
	if want.InvertedIndex.nulls() && !have.InvertedIndex.nulls() {
		c.differ("index of nulls", false, true)
	}
	r := replication{}
	if have.Replication != nil {
		r = *have.Replication
	}
	if n := want.Replication.Factor; n > 0 && r.Factor != n {
		c.differ("replication: factor", r.Factor, n)
	}
	if s := want.Replication.DeletionStrategy; s != "" && r.DeletionStrategy != s {
		c.change("replication: deletion strategy", r.DeletionStrategy, s, s, "replicationConfig", "deletionStrategy")
	}
	for _, name := range slices.Sorted(maps.Keys(want.VectorConfig)) {
		if v, ok := have.VectorConfig[name]; ok {
			c.compareVector(name, v, want.VectorConfig[name])
		} else {
			v := want.VectorConfig[name]
			c.change("vector "+name, "", v.VectorIndexType, v, "vectorConfig", name)
		}
	}
	if rangesInObjects(have.Properties) {
		c.keepRanges()
	}
	c.compareProperties(have.Properties, want.Properties)
	return c
}

func (c *comparison) compareTenancy(have, want multiTenancy) {
	if have.Enabled != want.Enabled {
		c.differ("multi-tenancy: enabled", have.Enabled, want.Enabled)
	}
	if want.Enabled && !have.AutoCreation {
		c.change("multi-tenancy: autoTenantCreation", false, true, true, "multiTenancyConfig", "autoTenantCreation")
	}
	if want.Enabled && !have.AutoActivation {
		c.change("multi-tenancy: autoTenantActivation", false, true, true, "multiTenancyConfig", "autoTenantActivation")
	}
}

// keepRanges makes all changes impossible. In a collection in whose objects there are indexes for ranges, the server refuses every change,
// and takes those indexes for gone from then on (seen with v1.35 and v1.39).
func (c *comparison) keepRanges() {
	for _, d := range c.mutable {
		d.Want += "; the server changes no collection with range filters in objects"
		c.fixed = append(c.fixed, d)
	}
	c.mutable, c.changes = nil, nil
}

func rangesInObjects(properties []classProperty) bool {
	return slices.ContainsFunc(properties, func(p classProperty) bool {
		return slices.ContainsFunc(p.Nested, func(n classProperty) bool { return on(n.IndexRangeFilters) }) || rangesInObjects(p.Nested)
	})
}

func (c *comparison) compareVector(name string, have, want vectorConfig) {
	field := "vector " + name + ": "
	if _, none := have.Vectorizer["none"]; !none {
		c.differ(field+"vectorizer", strings.Join(slices.Sorted(maps.Keys(have.Vectorizer)), ", "), "none")
	}
	h, w := have.VectorIndexConfig, want.VectorIndexConfig
	asked, is := w.asked(), h.quantizer()
	switch {
	case have.VectorIndexType != want.VectorIndexType:
		c.differ(field+"index", have.VectorIndexType, want.VectorIndexType)
	case asked == "" || asked == is:
	case is == Unquantized && want.VectorIndexType == HNSW: // other changes the server accepts, and does not do (seen with v1.35 and v1.39)
		c.change(field+"quantizer", is, asked, true, "vectorConfig", name, "vectorIndexConfig", string(asked), "enabled")
	default:
		c.differ(field+"quantizer", is, asked)
	}
	if h.Distance != w.Distance {
		c.differ(field+"distance", h.Distance, w.Distance)
	}
	if h.Skip {
		c.differ(field+"indexing", "skipped", "an index")
	}
	if h.multi() != w.multi() {
		c.differ(field+"multi-vector", h.multi(), w.multi())
	}
	if h.muvera() != w.muvera() {
		c.differ(field+"multi-vector: MUVERA", h.muvera(), w.muvera())
	}
	if w.EFConstruction != 0 && h.EFConstruction != w.EFConstruction {
		c.differ(field+"efConstruction", h.EFConstruction, w.EFConstruction)
	}
	if w.MaxConnections != 0 && h.MaxConnections != w.MaxConnections {
		c.differ(field+"maxConnections", h.MaxConnections, w.MaxConnections)
	}
	if w.EF != 0 && h.EF != w.EF {
		c.change(field+"ef", h.EF, w.EF, w.EF, "vectorConfig", name, "vectorIndexConfig", "ef")
	}
}

// compareProperties also finds what is missing: properties can be added, if no other has the name in other letter case.
func (c *comparison) compareProperties(have, want []classProperty) {
	there, wanted := newProperties(have), newProperties(want)
	c.fixed = append(c.fixed, propertyDifferences("", there, wanted)...)
	for _, p := range want {
		i := slices.IndexFunc(have, func(h classProperty) bool { return strings.EqualFold(h.Name, p.Name) })
		switch {
		case there[p.Name] != nil:
		case i >= 0:
			c.differ("property "+p.Name+": name", have[i].Name, p.Name)
		default:
			c.mutable = append(c.mutable, Difference{Field: "property " + p.Name, Want: string(p.dataType())})
			c.properties = append(c.properties, p)
		}
	}
}

// propertyDifferences says what differs, and which types cannot be carried at all: an upsert replaces the whole object,
// so that their values would be lost.
func propertyDifferences(prefix string, have, want map[string]*property) []Difference {
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(have)) {
		h, w := have[name], want[name]
		field := "property " + prefix + name
		switch {
		case w != nil && h.dataType != w.dataType:
			out = append(out, Difference{field + ": type", string(h.dataType), string(w.dataType)})
			continue
		case !h.dataType.known(), prefix != "" && h.dataType == Blob:
			out = append(out, Difference{field + ": type", string(h.dataType), "a type that is supported"})
			continue
		}
		var nested map[string]*property
		if w != nil {
			nested = w.nested
			if name != versionProperty && name != inputsProperty { // whoever made them, their indexes do no harm
				out = append(out, indexDifferences(field, h.indexes, w.indexes)...)
			}
		}
		out = append(out, propertyDifferences(prefix+name+".", h.nested, nested)...)
	}
	if prefix == "" {
		return out // what is missing at the top is added
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] == nil {
			field := "property " + prefix + name
			out = append(out, Difference{Field: field, Want: string(want[name].dataType) + "; Weaviate adds no nested properties"})
		}
	}
	return out
}

// indexDifferences compares what a declared property says; of the ways to cut texts it may say nothing.
func indexDifferences(field string, have, want indexes) []Difference {
	var out []Difference
	if want.tokenization != "" && have.tokenization != want.tokenization {
		out = append(out, Difference{field + ": tokenization", string(have.tokenization), string(want.tokenization)})
	}
	for _, index := range []struct {
		name       string
		have, want bool
	}{
		{"filterable", have.filter, want.filter}, {"searchable", have.search, want.search}, {"range filters", have.ranges, want.ranges},
	} {
		if index.have != index.want {
			out = append(out, Difference{field + ": " + index.name, fmt.Sprint(index.have), fmt.Sprint(index.want)})
		}
	}
	return out
}
