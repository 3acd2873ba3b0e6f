package normalize_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/normalize"
)

// spellings returns the spellings of a header name that some backend or other
// takes for it.
func spellings(name string) []string {
	all := []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]}
	for _, separator := range []string{"_", ".", "~"} {
		all = append(all, strings.ReplaceAll(name, "-", separator))
		all = append(all, strings.Replace(name, "-", separator, 1))
		all = append(all, strings.ToUpper(strings.ReplaceAll(name, "-", separator)))
	}
	return all
}

func TestFieldOf(t *testing.T) {
	for field := normalize.FieldOther + 1; field.String() != "" || field <= normalize.FieldVariant; field++ {
		name := field.String()
		if name == "" {
			continue
		}
		for _, spelling := range spellings(name) {
			want := field
			if strings.ContainsAny(spelling, "_.~") {
				want = normalize.FieldOther
				if field <= normalize.FieldVariant {
					want = normalize.FieldVariant
				}
			}
			if got := normalize.FieldOf([]byte(spelling)); got != want {
				t.Errorf("FieldOf(%q) = %d, want %d", spelling, got, want)
			}
			if !normalize.SameField([]byte(spelling), []byte(name)) {
				t.Errorf("SameField(%q, %q) = false", spelling, name)
			}
		}
		for _, other := range []string{"y" + name, name + "y", name[1:], name[:len(name)-1]} {
			if got := normalize.FieldOf([]byte(other)); got == field {
				t.Errorf("FieldOf(%q) = %d, which is %s", other, got, name)
			}
		}
	}
}

func TestFieldClasses(t *testing.T) {
	tests := []struct {
		name string
		want normalize.Field
	}{
		{"", normalize.FieldOther},
		{"x", normalize.FieldOther},
		{"x-forwarded", normalize.FieldOther},
		{"x-forwarded-", normalize.FieldIdentityOther},
		{"X-Forwarded-Prefix", normalize.FieldIdentityOther},
		{"X-Forwarded-Ssl", normalize.FieldIdentityOther},
		{"X-SSL-Client-Cert", normalize.FieldIdentityOther},
		{"X_SSL_Client_Cert", normalize.FieldVariant},
		{"X-Forwarded_Anything", normalize.FieldVariant},
		{"x-forwarded-" + strings.Repeat("a_", 100), normalize.FieldVariant},
		{"content_length", normalize.FieldVariant},
		{"transfer.encoding", normalize.FieldVariant},
		{"x-request_id", normalize.FieldOther},
		{"accept_encoding", normalize.FieldOther},
	}
	for _, test := range tests {
		if got := normalize.FieldOf([]byte(test.name)); got != test.want {
			t.Errorf("FieldOf(%q) = %d, want %d", test.name, got, test.want)
		}
	}
}

// TestFieldFacts pins what the fields that attacks are made of are held for.
func TestFieldFacts(t *testing.T) {
	for _, field := range []normalize.Field{
		normalize.FieldForwarded, normalize.FieldXForwardedFor, normalize.FieldXForwardedHost, normalize.FieldXForwardedPort,
		normalize.FieldXForwardedProto, normalize.FieldXForwardedServer, normalize.FieldXRealIP, normalize.FieldIdentityOther,
	} {
		if !field.Identity() || !field.Settled() || !field.HeadOnly() || field.ConnectionOnly() {
			t.Errorf("field %d (%s) is not held for an identity", field, field)
		}
	}
	for _, field := range []normalize.Field{
		normalize.FieldConnection, normalize.FieldKeepAlive, normalize.FieldProxyConnection, normalize.FieldProxyAuthenticate,
		normalize.FieldProxyAuthorization, normalize.FieldTE, normalize.FieldUpgrade, normalize.FieldHTTP2Settings,
		normalize.FieldProxy, normalize.FieldVariant,
	} {
		if !field.ConnectionOnly() || !field.HeadOnly() {
			t.Errorf("field %d (%s) is forwarded", field, field)
		}
	}
	for _, field := range []normalize.Field{
		normalize.FieldHost, normalize.FieldContentLength, normalize.FieldTransferEncoding,
		normalize.FieldCookie, normalize.FieldAuthorization,
	} {
		if !field.Settled() || !field.HeadOnly() {
			t.Errorf("field %d (%s) can be removed by Connection or set by a trailer", field, field)
		}
	}
	if normalize.FieldOther.Settled() || normalize.FieldOther.HeadOnly() || normalize.FieldOther.ConnectionOnly() {
		t.Error("an unknown field has a meaning")
	}
}

func FuzzFieldOf(f *testing.F) {
	f.Add("X-Forwarded-For")
	f.Add("x_real_ip")
	f.Fuzz(func(t *testing.T, name string) {
		folded := strings.Map(func(r rune) rune {
			switch {
			case r >= 'A' && r <= 'Z':
				return r | 0x20
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
				return r
			}
			return '-'
		}, name)
		field := normalize.FieldOf([]byte(name))
		if strings.HasPrefix(folded, "x-forwarded-") || folded == "forwarded" || folded == "x-real-ip" {
			if !field.Identity() && field != normalize.FieldVariant {
				t.Fatalf("FieldOf(%q) = %d is no identity", name, field)
			}
		}
		if text := field.String(); text != "" && !strings.EqualFold(text, name) {
			t.Fatalf("FieldOf(%q) = %s", name, text)
		}
	})
}
