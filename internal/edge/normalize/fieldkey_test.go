package normalize_test

import (
	"bytes"
	"testing"

	"slipway.dev/slipway/internal/edge/normalize"
)

// A known name is known in any case of its letters, and with any other byte in it is
// another name: in particular, no byte passes for a letter or a hyphen because it
// differs from it in one bit.
func TestKnownField(t *testing.T) {
	fields := map[string]normalize.Field{}
	for field := normalize.FieldOther + 1; field.String() != "" || field <= normalize.FieldVariant; field++ {
		if name := field.String(); name != "" {
			fields[name] = field
		}
	}
	want := func(name []byte) normalize.Field {
		for lower, field := range fields {
			if normalize.EqualFold(name, lower) {
				return field
			}
		}
		return normalize.FieldOther
	}
	for lower := range fields {
		for _, name := range [][]byte{[]byte(lower), bytes.ToUpper([]byte(lower))} {
			for i := range name {
				before := name[i]
				for c := range 256 {
					name[i] = byte(c)
					if got, want := normalize.KnownField(name), want(name); got != want {
						t.Errorf("KnownField(%q) = %d, want %d", name, got, want)
					}
				}
				name[i] = before
			}
		}
	}
	for _, name := range []string{"", "x", "xy", "hostx", "x-forwarded-prefix", "proxy-authentication-infos"} {
		if got := normalize.KnownField([]byte(name)); got != normalize.FieldOther {
			t.Errorf("KnownField(%q) = %d", name, got)
		}
	}
}
