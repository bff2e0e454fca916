package topology

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-go/tidemark/pulsarx"
)

// Options say what a plan may do beyond adding and changing what is declared. The zero value takes nothing away.
type Options struct {
	// ResetUndeclared takes policies and permissions that declared namespaces and topics have, and that are not declared, back to
	// what applies without them.
	ResetUndeclared bool
	// DeleteUndeclared deletes what is not declared inside of what is: namespaces of declared tenants, topics of declared namespaces,
	// subscriptions of declared topics, with their messages. A tenant that declares no namespaces at all (nil, in YAML an absent
	// field) keeps them, a namespace its topics, a topic its subscriptions; an empty map declares that there are none. A topic that is
	// in use is refused by the server, and stays. Dead-letter topics that are not declared are topics too: read the plan.
	DeleteUndeclared bool
	// GrowKeyed are the whole names (persistent://tenant/namespace/topic) of topics with keys whose partitions may be added to.
	// Read the refusal that a plan has without it first.
	GrowKeyed []string
}

// Action is what a change does.
type Action byte

// The actions, as a plan shows them.
const (
	Create Action = '+'
	Update Action = '~'
	Delete Action = '-'
)

// Change is one step of a plan.
type Change struct {
	Action Action
	// Resource is a kind and a name, as "namespace shop/events". Setting is what of it changes, "" for the resource itself.
	Resource, Setting string
	// Old and New are values in YAML; "" is none.
	Old, New string
	step     *step
}

// step is how a change is made. run is asked again, with last set, when the server refused and other changes of the resource have
// been made since.
type step struct {
	run func(ctx context.Context, c cluster, last bool) error
}

// String is the change in a line: "~ namespace shop/events ttl: 1h -> 7d".
func (c Change) String() string {
	text := fmt.Sprintf("%c %s", c.Action, c.Resource)
	if c.Setting != "" {
		text += " " + c.setting()
	} else if detail := c.New + c.Old; detail != "" {
		text += " (" + detail + ")"
	}
	return line(text)
}

func (c Change) setting() string { return c.Setting + ": " + c.values() }

// line escapes, as Go does, what would not be seen as it is: line breaks, other control characters, and what turns the direction of writing.
// A name cannot pass for another line of a plan.
func line(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func (c Change) values() string {
	switch {
	case c.Old == "":
		return c.New
	case c.New == "":
		return c.Old + " -> not set"
	}
	return c.Old + " -> " + c.New
}

// Plan is the difference between a declaration and a cluster, as it was when the plan was made.
type Plan struct {
	// Changes in the order in which Apply makes them.
	Changes []Change
	// Warnings are what a person should know before agreeing.
	Warnings []string
	// Refusals are what is declared and will not be done.
	Refusals []Refusal
	cluster  cluster
}

// NewPlan compares a declaration with the cluster that the client's AdminURL names, and changes nothing. An invalid declaration is
// an error, as Validate returns it.
func NewPlan(ctx context.Context, client *pulsarx.Client, t Topology, o Options) (*Plan, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	d := newDiff(client, t, o)
	if err := d.run(ctx); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return d.plan, nil
}

// Empty says that there is nothing to do: no change, and no refusal.
func (p *Plan) Empty() bool { return len(p.Changes)+len(p.Refusals) == 0 }

// String is the plan for a person to read: what is created (+), changed (~) and deleted (-), resource by resource, with old and new
// values, then the warnings and the refusals, each on one line: what cannot be printed in a name or value is escaped as in Go. The same
// difference gives the same text.
func (p *Plan) String() string {
	var b strings.Builder
	resource := ""
	for _, c := range p.Changes {
		if c.Setting == "" {
			fmt.Fprintln(&b, c)
			resource = c.Resource
			continue
		}
		if c.Resource != resource {
			fmt.Fprintf(&b, "~ %s\n", line(c.Resource))
			resource = c.Resource
		}
		fmt.Fprintf(&b, "    %c %s\n", c.Action, line(c.setting()))
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", line(w))
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(&b, "refused: %v\n", r)
	}
	b.WriteString(p.summary())
	return b.String()
}

func (p *Plan) summary() string {
	if p.Empty() {
		return "Nothing to do: the cluster is as declared.\n"
	}
	count := map[Action]int{}
	for _, c := range p.Changes {
		count[c.Action]++
	}
	text := fmt.Sprintf("Plan: %d to create or set, %d to change, %d to delete or unset", count[Create], count[Update], count[Delete])
	if n := len(p.Refusals); n > 0 {
		text += fmt.Sprintf("; %d refused, so that nothing is applied", n)
	}
	return text + ".\n"
}
