package normalize_test

import (
	"bytes"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/normalize"
)

// checkPath compares Path with the reference, and holds it to its promises.
func checkPath(t *testing.T, raw string) {
	t.Helper()
	input := []byte(raw)
	got, hazards, err := normalize.Path([]byte("kept"), input)
	if string(input) != raw {
		t.Fatalf("Path(%q) wrote to its input: %q", raw, input)
	}
	want, wantHazards, wantErr := referencePath(raw)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("Path(%q): %q, %v; the reference says %q, %v", raw, got, err, want, wantErr)
	}
	if err != nil {
		return
	}
	if string(got) != want || hazards != wantHazards {
		t.Fatalf("Path(%q) = %q %b, the reference says %q %b", raw, got, hazards, want, wantHazards)
	}
	again, hazardsAgain, err := normalize.Path(nil, got)
	if err != nil || !bytes.Equal(again, got) {
		t.Fatalf("Path(%q) = %q is not canonical: again %q, %v", raw, got, again, err)
	}
	// Segments that dots removed may have taken hazards with them.
	if hazardsAgain&^hazards != 0 {
		t.Fatalf("Path(%q): hazards %b, and %b when normalised again", raw, hazards, hazardsAgain)
	}
	// A backend that decodes has to see what it would have seen of the raw path.
	if hazards == 0 {
		decoded, err := url.PathUnescape(string(got))
		if err != nil {
			t.Fatalf("Path(%q) = %q cannot be decoded: %v", raw, got, err)
		}
		for segment := range strings.SplitSeq(decoded, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("Path(%q) = %q has dot segments when decoded", raw, got)
			}
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, test := range pathTests {
		f.Add(test.raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		checkPath(t, raw)
		checkPath(t, "/"+raw)
	})
}

// TestPathAgreesWithReference tries paths made of the pieces that matter, which
// random bytes seldom hit together.
func TestPathAgreesWithReference(t *testing.T) {
	pieces := []string{
		"/", "/", "/", ".", "..", "a", "B", "~", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", ";", "%3b", "%00", "%23",
		"%25", "%", "%4", "%zz", "%41", "%7e", "%7F", "%20", "%c3%A9", "|", "[", "{", "+", "%2B", "%3f", "?", "#", " ", "é", "\x00",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var raw strings.Builder
		raw.WriteByte('/')
		for range random.IntN(9) {
			raw.WriteString(pieces[random.IntN(len(pieces))])
		}
		checkPath(t, raw.String())
	}
}

func checkHost(t *testing.T, raw string) {
	t.Helper()
	input := []byte(raw)
	got, port, err := normalize.Host([]byte("kept"), input)
	if string(input) != raw {
		t.Fatalf("Host(%q) wrote to its input: %q", raw, input)
	}
	want, wantPort, wantErr := referenceHost(raw)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("Host(%q): %q, %v; the reference says %q, %v", raw, got, err, want, wantErr)
	}
	if err != nil {
		return
	}
	if string(got) != want || port != wantPort {
		t.Fatalf("Host(%q) = %q %d, the reference says %q %d", raw, got, port, want, wantPort)
	}
	if again, _, err := normalize.Host(nil, got); err != nil || !bytes.Equal(again, got) {
		t.Fatalf("Host(%q) = %q is not canonical: again %q, %v", raw, got, again, err)
	}
}

func FuzzHost(f *testing.F) {
	for _, test := range hostTests {
		f.Add(test.raw)
	}
	f.Fuzz(checkHost)
}

// TestHostAgreesWithReference tries hosts made of the pieces that matter.
func TestHostAgreesWithReference(t *testing.T) {
	pieces := []string{
		"a", "B", "9", "-", "_", ".", ":", "80", "0", "65535", "65536", "[", "]", "::", "::1", "fe80::1%eth0",
		"0:0", "FFFF", "1.2.3.4", "xn--", "@", "%41", " ", "é", strings.Repeat("a", 63), "example", ".com",
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var raw strings.Builder
		for range random.IntN(7) {
			raw.WriteString(pieces[random.IntN(len(pieces))])
		}
		checkHost(t, raw.String())
	}
}

// FuzzURI holds Resolve to what follows for all targets: matched is forwarded,
// and forwarded is canonical.
func FuzzURI(f *testing.F) {
	for _, test := range uriTests {
		f.Add(test.target, test.host, uint8(0))
	}
	f.Add("/a;b/%2F", "example.com", uint8(^normalize.Hazard(0)))
	f.Fuzz(func(t *testing.T, target, host string, allow uint8) {
		var uri, again normalize.URI
		raw := normalize.Raw{Target: []byte(target), Host: []byte(host), Options: true, HostOptional: true}
		if err := uri.Resolve(raw, normalize.Hazard(allow)); err != nil {
			return
		}
		if uri.Hazards&^normalize.Hazard(allow) != 0 {
			t.Fatalf("%q: hazards %b passed, %b were allowed", target, uri.Hazards, allow)
		}
		forwarded := string(uri.AppendTarget(nil))
		for _, c := range []byte(forwarded + string(uri.Authority)) {
			if c <= ' ' || c >= 0x7f || c == '#' {
				t.Fatalf("%q %q: forwards %q to %q", target, host, forwarded, uri.Authority)
			}
		}
		if !strings.HasSuffix(target, string(uri.Query)) {
			t.Fatalf("%q: the query became %q", target, uri.Query)
		}
		raw.Target, raw.Host = []byte(forwarded), uri.Authority
		if err := again.Resolve(raw, ^normalize.Hazard(0)); err != nil {
			t.Fatalf("%q %q: forwards %q to %q, which is refused: %v", target, host, forwarded, uri.Authority, err)
		}
		if again.Rewritten || string(again.AppendTarget(nil)) != forwarded || !bytes.Equal(again.Host, uri.Host) ||
			!bytes.Equal(again.Authority, uri.Authority) || again.Port != uri.Port {
			t.Fatalf("%q %q: forwards %q to %q, which is %q to %q", target, host,
				forwarded, uri.Authority, again.AppendTarget(nil), again.Authority)
		}
	})
}
