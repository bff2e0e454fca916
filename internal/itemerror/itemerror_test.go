package itemerror

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

type verdict bool

func (v verdict) Error() string   { return fmt.Sprintf("permanent: %v", bool(v)) }
func (v verdict) Permanent() bool { return bool(v) }

type batch []error

func (b batch) Error() string       { return "batch" }
func (b batch) ItemErrors() []error { return b }

func TestIsPermanent(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("plain"), false},
		{verdict(true), true},
		{verdict(false), false},
		{fmt.Errorf("wrapped: %w", verdict(true)), true},
		{errors.Join(verdict(false), verdict(true)), false}, // the first has its say
	} {
		if got := IsPermanent(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

func TestPermanent(t *testing.T) {
	if err := Permanent(nil); err != nil {
		t.Errorf("of nil: %v", err)
	}
	plain := errors.New("plain")
	if err := Permanent(plain); !IsPermanent(err) || !errors.Is(err, plain) || err.Error() != "plain" {
		t.Errorf("of an error: %v", err)
	}
}

func TestAlign(t *testing.T) {
	plain, own := errors.New("plain"), batch{nil, verdict(true)}
	for _, tt := range []struct {
		name  string
		err   error
		n     int
		want  []error
		named bool
	}{
		{"none", nil, 2, nil, true},
		{"plain", plain, 2, []error{plain, plain}, false},
		{"aligned", own, 2, own, true},
		{"wrapped", fmt.Errorf("more: %w", own), 2, own, true},
		{"another length", own, 1, []error{own}, false},
	} {
		got, named := Align(tt.err, tt.n)
		if named != tt.named || !slices.EqualFunc(got, tt.want, func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s: %v, %v", tt.name, got, named)
		}
	}
	got, _ := Align(own, 2)
	if got[0] = plain; own[0] != nil {
		t.Error("the result is not the caller's own")
	}
}

func TestAllPermanent(t *testing.T) {
	for _, tt := range []struct {
		errs []error
		want bool
	}{
		{nil, false},
		{[]error{nil, nil}, false},
		{[]error{nil, verdict(true)}, true},
		{[]error{verdict(true), verdict(false)}, false},
		{[]error{verdict(true), errors.New("plain")}, false},
	} {
		if got := AllPermanent(tt.errs); got != tt.want {
			t.Errorf("%v: %v", tt.errs, got)
		}
	}
}

func TestText(t *testing.T) {
	if got, want := Text("embed", "inputs", []error{nil, errors.New("x"), errors.New("y")}), "embed: 2 of 3 inputs failed, the first, number 1: x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Text("embed", "inputs", []error{nil}), "embed: 0 of 1 inputs failed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
