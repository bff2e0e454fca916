package weaviate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// differences says where have does not do what want needs and cannot be made to.
func (want class) differences(have class) []Difference {
	var out []Difference
	differ := func(field, have, want string) { out = append(out, Difference{field, have, want}) }
	if have.Class != want.Class {
		differ("the name that the server answers with", have.Class, want.Class)
	}
	for _, d := range []struct {
		name       string
		have, want bool
	}{
		{"multi-tenancy: enabled", have.MultiTenancy.Enabled, want.MultiTenancy.Enabled},
		{"multi-tenancy: autoTenantCreation", have.MultiTenancy.AutoCreation, want.MultiTenancy.AutoCreation},
		{"multi-tenancy: autoTenantActivation", have.MultiTenancy.AutoActivation, want.MultiTenancy.AutoActivation},
	} {
		if d.have != d.want && (want.MultiTenancy.Enabled || d.name == "multi-tenancy: enabled") {
			differ(d.name, fmt.Sprint(d.have), fmt.Sprint(d.want))
		}
	}
	if have.Vectorizer != "" && have.Vectorizer != "none" {
		differ("vectorizer", have.Vectorizer, "none")
	}
	if r := have.Replication; r != nil && want.Replication.Factor > 0 && r.Factor != want.Replication.Factor {
		differ("replication: factor", fmt.Sprint(r.Factor), fmt.Sprint(want.Replication.Factor))
	}
	if w := want.Replication.DeletionStrategy; w != "" && (have.Replication == nil || have.Replication.DeletionStrategy != w) {
		strategy := DeletionStrategy("")
		if have.Replication != nil {
			strategy = have.Replication.DeletionStrategy
		}
		differ("replication: deletion strategy", string(strategy), string(w))
	}
	for _, name := range slices.Sorted(maps.Keys(want.VectorConfig)) {
		if v, ok := have.VectorConfig[name]; ok {
			out = append(out, want.VectorConfig[name].differences("vector "+name+": ", v)...)
		} else if len(have.VectorConfig) == 0 {
			differ("vector "+name, "", "named vectors; a collection that was made without any cannot get them")
		}
	}
	return append(out, propertyDifferences("", newProperties(have.Properties), newProperties(want.Properties))...)
}

func (want vectorConfig) differences(field string, have vectorConfig) []Difference {
	var out []Difference
	differ := func(name string, have, want any) {
		out = append(out, Difference{field + name, fmt.Sprint(have), fmt.Sprint(want)})
	}
	if _, none := have.Vectorizer["none"]; !none {
		differ("vectorizer", strings.Join(slices.Sorted(maps.Keys(have.Vectorizer)), ", "), "none")
	}
	h, w := have.VectorIndexConfig, want.VectorIndexConfig
	if have.VectorIndexType != want.VectorIndexType {
		differ("index", have.VectorIndexType, want.VectorIndexType)
	} else if asked := w.asked(); asked != "" && asked != h.quantizer() {
		differ("quantizer", h.quantizer(), asked)
	}
	if h.Distance != w.Distance {
		differ("distance", h.Distance, w.Distance)
	}
	if h.Skip {
		differ("indexing", "skipped", "an index")
	}
	if h.multi() != w.multi() {
		differ("multi-vector", h.multi(), w.multi())
	}
	if h.muvera() != w.muvera() {
		differ("multi-vector: MUVERA", h.muvera(), w.muvera())
	}
	for _, n := range []struct {
		name       string
		have, want int
	}{
		{"efConstruction", h.EFConstruction, w.EFConstruction},
		{"maxConnections", h.MaxConnections, w.MaxConnections},
		{"ef", h.EF, w.EF},
	} {
		if n.want != 0 && n.have != n.want {
			differ(n.name, n.have, n.want)
		}
	}
	return out
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

// indexDifferences compares where want says something.
func indexDifferences(field string, have, want indexes) []Difference {
	var out []Difference
	if want.tokenization != "" && have.tokenization != want.tokenization {
		out = append(out, Difference{field + ": tokenization", string(have.tokenization), string(want.tokenization)})
	}
	for _, index := range []struct {
		name       string
		have, want *bool
	}{
		{"filterable", have.filter, want.filter}, {"searchable", have.search, want.search}, {"range filters", have.ranges, want.ranges},
	} {
		if index.want != nil && (index.have == nil || *index.have != *index.want) {
			is := index.have != nil && *index.have
			out = append(out, Difference{field + ": " + index.name, fmt.Sprint(is), fmt.Sprint(*index.want)})
		}
	}
	return out
}
