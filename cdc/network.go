package cdc

import (
	"net"
	"net/netip"
	"reflect"
	"strings"
)

// text returns a string's content for types that Postgres writes as text.
func textOf(v value) (string, *mismatch) {
	if v.kind != kindString {
		return "", mismatchf("%v is no string", v.kind)
	}
	return v.text(), nil
}

var fitsPlainText = classes(classString)

// prefixCodec reads inet and cidr: Postgres leaves out the length of the prefix where it is the whole address.
func prefixCodec(format) codec {
	return codec{fits: fitsPlainText, set: func(dst reflect.Value, v value, _ *wireType) *mismatch {
		text, bad := textOf(v)
		if bad != nil {
			return bad
		}
		prefix, err := parsePrefix(text)
		if err != nil {
			return mismatchf("the string is no address or prefix")
		}
		*dst.Addr().Interface().(*netip.Prefix) = prefix
		return nil
	}}
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// addressCodec reads inet where the prefix is the whole address: a shorter one would be lost.
func addressCodec(format) codec {
	return codec{fits: fitsPlainText, set: func(dst reflect.Value, v value, _ *wireType) *mismatch {
		text, bad := textOf(v)
		if bad != nil {
			return bad
		}
		prefix, err := parsePrefix(text)
		switch {
		case err != nil:
			return mismatchf("the string is no address")
		case !prefix.IsSingleIP():
			return mismatchf("the address has a prefix, which the field cannot hold: use netip.Prefix")
		}
		*dst.Addr().Interface().(*netip.Addr) = prefix.Addr()
		return nil
	}}
}

// hardwareCodec reads macaddr and macaddr8.
func hardwareCodec(format) codec {
	return codec{fits: fitsPlainText, set: func(dst reflect.Value, v value, _ *wireType) *mismatch {
		text, bad := textOf(v)
		if bad != nil {
			return bad
		}
		address, err := net.ParseMAC(text)
		if err != nil {
			return mismatchf("the string is no hardware address")
		}
		dst.SetBytes(address)
		return nil
	}}
}
